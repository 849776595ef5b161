package audit

import (
	"regexp"
	"strings"
)

// endpointForm is how one type of resource stands in the name of its host at AWS, without the domain.
// The first group is the resource's name or id.
type endpointForm struct {
	host *regexp.Regexp
	typ  string
}

// endpointForms are tried in order. Source: "Finding connection endpoints" and the like of each
// service's guide.
var endpointForms = []endpointForm{
	{regexp.MustCompile(`^([a-z0-9-]+)\.cluster-[a-z0-9]+\.[a-z0-9-]+\.rds$`), "AWS::RDS::DBCluster"},
	{regexp.MustCompile(`^([a-z0-9-]+)\.proxy-[a-z0-9]+\.[a-z0-9-]+\.rds$`), "AWS::RDS::DBProxy"},
	{regexp.MustCompile(`^([a-z0-9-]+)\.[a-z0-9]+\.[a-z0-9-]+\.rds$`), "AWS::RDS::DBInstance"},
	{regexp.MustCompile(`^([a-z0-9-]+)\.cluster-[a-z0-9]+\.[a-z0-9-]+\.docdb$`), "AWS::DocDB::DBCluster"},
	{regexp.MustCompile(`^([a-z0-9-]+)\.cluster-[a-z0-9]+\.[a-z0-9-]+\.neptune$`), "AWS::Neptune::DBCluster"},
	{regexp.MustCompile(`^([a-z0-9-]+)\.[a-z0-9]+\.[a-z0-9-]+\.redshift(?:-serverless)?$`), "AWS::Redshift::Cluster"},
	{regexp.MustCompile(`^([a-z0-9]+)\.dsql\.[a-z0-9-]+$`), "AWS::DSQL::Cluster"},
	{regexp.MustCompile(`^([a-z0-9-]+)-[a-z0-9]+\.serverless\.[a-z0-9-]+\.cache$`), "AWS::ElastiCache::ServerlessCache"},
	{regexp.MustCompile(`^([a-z0-9-]+)\.[a-z0-9]+\.(?:[a-z0-9-]+\.)*[a-z0-9-]+\.cache$`), "AWS::ElastiCache::ReplicationGroup"},
	{regexp.MustCompile(`^([a-z0-9-]+)\.[a-z0-9]+\.memorydb\.[a-z0-9-]+$`), "AWS::MemoryDB::Cluster"},
	{regexp.MustCompile(`^([a-z0-9-]+)\.[a-z0-9]+\.dax-clusters\.[a-z0-9-]+$`), "AWS::DAX::Cluster"},
	{regexp.MustCompile(`^(?:search|vpc)-([a-z0-9-]+)-[a-z0-9]+\.[a-z0-9-]+\.es$`), "AWS::OpenSearchService::Domain"},
	{regexp.MustCompile(`^([a-z0-9]+)\.[a-z0-9-]+\.aoss$`), "AWS::OpenSearchServerless::Collection"},
	{regexp.MustCompile(`^([a-z0-9-]+)\.[a-z0-9]+\.c\d+\.kafka(?:-serverless)?\.[a-z0-9-]+$`), "AWS::MSK::Cluster"},
	{regexp.MustCompile(`^(b-[0-9a-f-]+)-\d\.mq\.[a-z0-9-]+$`), "AWS::AmazonMQ::Broker"},
	{regexp.MustCompile(`^(fs-[0-9a-f]+)\.efs\.[a-z0-9-]+$`), "AWS::EFS::FileSystem"},
	{regexp.MustCompile(`^([a-z0-9-]+)-[0-9a-f]+\.(?:[a-z0-9-]+\.elb|elb\.[a-z0-9-]+)$`), typeLoadBalancer},
	{regexp.MustCompile(`^([a-z0-9]+)\.execute-api\.[a-z0-9-]+$`), "AWS::ApiGatewayV2::Api"},
	{regexp.MustCompile(`^([a-z0-9]+)\.appsync-api\.[a-z0-9-]+$`), "AWS::AppSync::GraphQLApi"},
	{regexp.MustCompile(`^([a-z0-9]+)\.lambda-url\.[a-z0-9-]+$`), typeFunction},
	{regexp.MustCompile(`^([a-z0-9.-]+)\.s3(?:[.-][a-z0-9-]+)?$`), "AWS::S3::Bucket"},
}

var (
	awsHost = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9.-]*\.(?:amazonaws\.com(?:\.cn)?|on\.aws)(?:/[A-Za-z0-9._-]+)?`)
	s3URL   = regexp.MustCompile(`\bs3a?://([a-z0-9][a-z0-9.-]{1,62})`)
	// oneOfMany is what differs between the hosts of one cluster: its nodes, its reader.
	oneOfMany  = regexp.MustCompile(`^(?:master|replica|primary|clustercfg|configuration|internal|dualstack|b-\d+|boot-[a-z0-9]+)[.-]`)
	readerHost = regexp.MustCompile(`\.cluster-(?:ro|custom)-`)
	s3PathHost = regexp.MustCompile(`^s3(?:[.-][a-z0-9-]+)?$`)
	// awsBucket are buckets from which AWS hands out its own software.
	awsBucket = regexp.MustCompile(`^(?:amazoncloudwatch-agent|amazon-ssm-|aws-codedeploy-|ec2-downloads-|cloudformation-examples|awscli)`)
)

// endpoint is the type, the name and an id of what has an address at AWS.
type endpoint struct{ typ, name, id string }

// endpointsOf finds the addresses in a string that belong to one resource. The host of a whole service
// is none.
func endpointsOf(s string) []endpoint {
	var out []endpoint
	if strings.Contains(s, "amazonaws.com") || strings.Contains(s, "on.aws") {
		for _, m := range awsHost.FindAllString(s, -1) {
			if e, ok := parseEndpoint(m); ok {
				out = append(out, e)
			}
		}
	}
	if strings.Contains(s, "://") {
		for _, m := range s3URL.FindAllStringSubmatch(s, -1) {
			if !awsBucket.MatchString(m[1]) {
				out = append(out, endpoint{"AWS::S3::Bucket", m[1], "arn:aws:s3:::" + m[1]})
			}
		}
	}
	return out
}

func parseEndpoint(s string) (endpoint, bool) {
	host, rest, _ := strings.Cut(s, "/")
	host = strings.ToLower(host)
	for _, domain := range []string{".cn", ".amazonaws.com", ".on.aws"} {
		host = strings.TrimSuffix(host, domain)
	}
	host = readerHost.ReplaceAllString(oneOfMany.ReplaceAllString(host, ""), ".cluster-")
	bucket := func(name string) (endpoint, bool) {
		return endpoint{"AWS::S3::Bucket", name, "arn:aws:s3:::" + name}, name != "" && !awsBucket.MatchString(name)
	}
	if s3PathHost.MatchString(host) {
		return bucket(rest)
	}
	for _, f := range endpointForms {
		m := f.host.FindStringSubmatch(host)
		switch {
		case m == nil:
			continue
		case f.typ == "AWS::S3::Bucket":
			return bucket(m[1])
		}
		return endpoint{f.typ, m[1], host}, true
	}
	return endpoint{}, false
}

// endpoints follows the addresses in a string.
func (b *builder) endpoints(i int, from int32, path []string, s string) {
	for _, p := range endpointsOf(s) {
		b.toNamed(from, path, b.stacks[i].env(), p.typ, p.name, p.id, byEndpoint)
	}
}
