package deploy

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// listers give the names of all that an account's region has of a kind. What an account has but once comes
// in each of its regions.
var listers = map[string]func(t *testing.T, w *world, at place) []string{
	"stack": func(t *testing.T, w *world, at place) (all []string) {
		for name := range w.stacks(t, at.account, at.region) {
			all = append(all, name)
		}
		return all
	},
	"function": func(t *testing.T, w *world, at place) []string {
		pages := lambda.NewListFunctionsPaginator(lambda.NewFromConfig(w.at(t, at)), &lambda.ListFunctionsInput{})
		return listed(t, pages, func(p *lambda.ListFunctionsOutput, add func(*string)) {
			for _, f := range p.Functions {
				add(f.FunctionName)
			}
		})
	},
	"table": func(t *testing.T, w *world, at place) []string {
		pages := dynamodb.NewListTablesPaginator(dynamodb.NewFromConfig(w.at(t, at)), &dynamodb.ListTablesInput{})
		return listed(t, pages, func(p *dynamodb.ListTablesOutput, add func(*string)) {
			for _, name := range p.TableNames {
				add(&name)
			}
		})
	},
	"queue": func(t *testing.T, w *world, at place) []string {
		pages := sqs.NewListQueuesPaginator(sqs.NewFromConfig(w.at(t, at)), &sqs.ListQueuesInput{})
		return listed(t, pages, func(p *sqs.ListQueuesOutput, add func(*string)) {
			for _, url := range p.QueueUrls {
				add(aws.String(url[strings.LastIndexByte(url, '/')+1:]))
			}
		})
	},
	"bucket": func(t *testing.T, w *world, at place) (all []string) {
		out, err := s3.NewFromConfig(w.at(t, at), func(o *s3.Options) { o.UsePathStyle = true }).ListBuckets(t.Context(), &s3.ListBucketsInput{})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range out.Buckets {
			all = append(all, *b.Name)
		}
		return all
	},
	"secret": func(t *testing.T, w *world, at place) []string {
		pages := secretsmanager.NewListSecretsPaginator(secretsmanager.NewFromConfig(w.at(t, at)), &secretsmanager.ListSecretsInput{})
		return listed(t, pages, func(p *secretsmanager.ListSecretsOutput, add func(*string)) {
			for _, s := range p.SecretList {
				add(s.Name)
			}
		})
	},
	"key alias": func(t *testing.T, w *world, at place) []string {
		pages := kms.NewListAliasesPaginator(kms.NewFromConfig(w.at(t, at)), &kms.ListAliasesInput{})
		return listed(t, pages, func(p *kms.ListAliasesOutput, add func(*string)) {
			for _, a := range p.Aliases {
				if !strings.HasPrefix(*a.AliasName, "alias/aws/") {
					add(a.AliasName)
				}
			}
		})
	},
	"log group": func(t *testing.T, w *world, at place) []string {
		pages := cloudwatchlogs.NewDescribeLogGroupsPaginator(cloudwatchlogs.NewFromConfig(w.at(t, at)), &cloudwatchlogs.DescribeLogGroupsInput{})
		return listed(t, pages, func(p *cloudwatchlogs.DescribeLogGroupsOutput, add func(*string)) {
			for _, g := range p.LogGroups {
				add(g.LogGroupName)
			}
		})
	},
	"parameter": func(t *testing.T, w *world, at place) []string {
		pages := ssm.NewDescribeParametersPaginator(ssm.NewFromConfig(w.at(t, at)), &ssm.DescribeParametersInput{})
		return listed(t, pages, func(p *ssm.DescribeParametersOutput, add func(*string)) {
			for _, p := range p.Parameters {
				add(p.Name)
			}
		})
	},
	"Auto Scaling group": func(t *testing.T, w *world, at place) []string {
		pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(autoscaling.NewFromConfig(w.at(t, at)), &autoscaling.DescribeAutoScalingGroupsInput{})
		return listed(t, pages, func(p *autoscaling.DescribeAutoScalingGroupsOutput, add func(*string)) {
			for _, g := range p.AutoScalingGroups {
				add(g.AutoScalingGroupName)
			}
		})
	},
	"launch template": func(t *testing.T, w *world, at place) []string {
		// Moto's pages are of 15 unless asked, and say not that there are more.
		pages := ec2.NewDescribeLaunchTemplatesPaginator(ec2.NewFromConfig(w.at(t, at)), &ec2.DescribeLaunchTemplatesInput{MaxResults: aws.Int32(200)})
		return listed(t, pages, func(p *ec2.DescribeLaunchTemplatesOutput, add func(*string)) {
			for _, l := range p.LaunchTemplates {
				add(l.LaunchTemplateName)
			}
		})
	},
	"security group": func(t *testing.T, w *world, at place) []string {
		pages := ec2.NewDescribeSecurityGroupsPaginator(ec2.NewFromConfig(w.at(t, at)), &ec2.DescribeSecurityGroupsInput{})
		return listed(t, pages, func(p *ec2.DescribeSecurityGroupsOutput, add func(*string)) {
			for _, g := range p.SecurityGroups {
				if *g.GroupName != "default" { // EC2's own, which comes and goes with a VPC
					add(g.GroupName)
				}
			}
		})
	},
	"load balancer": func(t *testing.T, w *world, at place) []string {
		pages := elb.NewDescribeLoadBalancersPaginator(elb.NewFromConfig(w.at(t, at)), &elb.DescribeLoadBalancersInput{})
		return listed(t, pages, func(p *elb.DescribeLoadBalancersOutput, add func(*string)) {
			for _, b := range p.LoadBalancers {
				add(b.LoadBalancerName)
			}
		})
	},
	"target group": func(t *testing.T, w *world, at place) []string {
		pages := elb.NewDescribeTargetGroupsPaginator(elb.NewFromConfig(w.at(t, at)), &elb.DescribeTargetGroupsInput{})
		return listed(t, pages, func(p *elb.DescribeTargetGroupsOutput, add func(*string)) {
			for _, g := range p.TargetGroups {
				add(g.TargetGroupName)
			}
		})
	},
	"role": func(t *testing.T, w *world, at place) []string {
		pages := iam.NewListRolesPaginator(iam.NewFromConfig(w.at(t, at)), &iam.ListRolesInput{})
		return listed(t, pages, func(p *iam.ListRolesOutput, add func(*string)) {
			for _, r := range p.Roles {
				add(r.RoleName)
			}
		})
	},
	"instance profile": func(t *testing.T, w *world, at place) []string {
		pages := iam.NewListInstanceProfilesPaginator(iam.NewFromConfig(w.at(t, at)), &iam.ListInstanceProfilesInput{})
		return listed(t, pages, func(p *iam.ListInstanceProfilesOutput, add func(*string)) {
			for _, p := range p.InstanceProfiles {
				add(p.InstanceProfileName)
			}
		})
	},
	"zone": func(t *testing.T, w *world, at place) (all []string) {
		for zone := range w.hosts(t, at) {
			all = append(all, zone)
		}
		return all
	},
	"host": func(t *testing.T, w *world, at place) (all []string) {
		for _, hosts := range w.hosts(t, at) {
			for host := range hosts {
				all = append(all, host)
			}
		}
		return all
	},
	"alarm": func(t *testing.T, w *world, at place) (all []string) {
		for name := range w.alarms(t, at, "").over {
			all = append(all, name)
		}
		return all
	},
	"metric's alarm": func(t *testing.T, w *world, at place) []string { return w.alarms(t, at, "").metrics },
	"dashboard": func(t *testing.T, w *world, at place) []string {
		return w.askedNames(t, at, "monitoring", "1.0", "GraniteServiceVersion20100801.ListDashboards", "DashboardEntries", "DashboardName")
	},
	"insight rule": func(t *testing.T, w *world, at place) []string {
		return w.askedNames(t, at, "monitoring", "1.0", "GraniteServiceVersion20100801.DescribeInsightRules", "InsightRules", "Name")
	},
	"rule": func(t *testing.T, w *world, at place) []string {
		return w.askedNames(t, at, "events", "1.1", "AWSEvents.ListRules", "Rules", "Name")
	},
}

// hosts are the private zones of an account, and what their hosts are aliases for.
func (w *world) hosts(t *testing.T, at place) map[string]map[string]string {
	t.Helper()
	client := route53.NewFromConfig(w.at(t, at))
	found := map[string]map[string]string{}
	zones := route53.NewListHostedZonesPaginator(client, &route53.ListHostedZonesInput{})
	for zones.HasMorePages() {
		for _, zone := range page(t, zones.NextPage).HostedZones {
			if !zone.Config.PrivateZone {
				t.Errorf("zone %s is public", *zone.Name)
			}
			hosts := map[string]string{}
			records := route53.NewListResourceRecordSetsPaginator(client, &route53.ListResourceRecordSetsInput{HostedZoneId: zone.Id})
			for records.HasMorePages() {
				for _, r := range page(t, records.NextPage).ResourceRecordSets {
					if r.AliasTarget != nil {
						hosts[strings.TrimSuffix(*r.Name, ".")] = strings.TrimSuffix(*r.AliasTarget.DNSName, ".")
					}
				}
			}
			found[strings.TrimSuffix(*zone.Name, ".")] = hosts
		}
	}
	return found
}

// at is the configuration of an SDK client that works in a place.
func (w *world) at(t *testing.T, at place) aws.Config { return w.aws.Config(t, at.account, at.region) }

// askedNames are the values of a member of all that an operation lists, of a service that is asked without its SDK.
func (w *world) askedNames(t *testing.T, at place, service, version, operation, list, member string) (all []string) {
	t.Helper()
	var out map[string]json.RawMessage
	w.aws.Ask(t, at.account, at.region, service, version, operation, nil, &out)
	var items []map[string]any
	if err := json.Unmarshal(out[list], &items); err != nil {
		t.Fatalf("%s: %v", operation, err)
	}
	for _, item := range items {
		all = append(all, item[member].(string))
	}
	return all
}

// paginator is one of an SDK's.
type paginator[Out, Option any] interface {
	HasMorePages() bool
	NextPage(context.Context, ...Option) (*Out, error)
}

// listed are the names that add is told of, page by page.
func listed[Out, Option any](t *testing.T, pages paginator[Out, Option], tell func(p *Out, add func(*string))) (all []string) {
	t.Helper()
	for pages.HasMorePages() {
		tell(page(t, pages.NextPage), func(name *string) { all = append(all, *name) })
	}
	return all
}

// page is the next of an SDK's pages.
func page[Out, Option any](t *testing.T, next func(context.Context, ...Option) (*Out, error)) *Out {
	t.Helper()
	out, err := next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}
