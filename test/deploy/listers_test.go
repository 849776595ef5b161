package deploy

import (
	"context"
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
	"function": func(t *testing.T, w *world, at place) (all []string) {
		pages := lambda.NewListFunctionsPaginator(lambda.NewFromConfig(w.at(t, at)), &lambda.ListFunctionsInput{})
		for pages.HasMorePages() {
			for _, f := range page(t, pages.NextPage).Functions {
				all = append(all, *f.FunctionName)
			}
		}
		return all
	},
	"table": func(t *testing.T, w *world, at place) (all []string) {
		pages := dynamodb.NewListTablesPaginator(dynamodb.NewFromConfig(w.at(t, at)), &dynamodb.ListTablesInput{})
		for pages.HasMorePages() {
			all = append(all, page(t, pages.NextPage).TableNames...)
		}
		return all
	},
	"queue": func(t *testing.T, w *world, at place) (all []string) {
		pages := sqs.NewListQueuesPaginator(sqs.NewFromConfig(w.at(t, at)), &sqs.ListQueuesInput{})
		for pages.HasMorePages() {
			for _, url := range page(t, pages.NextPage).QueueUrls {
				all = append(all, url[strings.LastIndexByte(url, '/')+1:])
			}
		}
		return all
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
	"secret": func(t *testing.T, w *world, at place) (all []string) {
		pages := secretsmanager.NewListSecretsPaginator(secretsmanager.NewFromConfig(w.at(t, at)), &secretsmanager.ListSecretsInput{})
		for pages.HasMorePages() {
			for _, s := range page(t, pages.NextPage).SecretList {
				all = append(all, *s.Name)
			}
		}
		return all
	},
	"key alias": func(t *testing.T, w *world, at place) (all []string) {
		pages := kms.NewListAliasesPaginator(kms.NewFromConfig(w.at(t, at)), &kms.ListAliasesInput{})
		for pages.HasMorePages() {
			for _, a := range page(t, pages.NextPage).Aliases {
				if !strings.HasPrefix(*a.AliasName, "alias/aws/") {
					all = append(all, *a.AliasName)
				}
			}
		}
		return all
	},
	"log group": func(t *testing.T, w *world, at place) (all []string) {
		pages := cloudwatchlogs.NewDescribeLogGroupsPaginator(cloudwatchlogs.NewFromConfig(w.at(t, at)), &cloudwatchlogs.DescribeLogGroupsInput{})
		for pages.HasMorePages() {
			for _, g := range page(t, pages.NextPage).LogGroups {
				all = append(all, *g.LogGroupName)
			}
		}
		return all
	},
	"parameter": func(t *testing.T, w *world, at place) (all []string) {
		pages := ssm.NewDescribeParametersPaginator(ssm.NewFromConfig(w.at(t, at)), &ssm.DescribeParametersInput{})
		for pages.HasMorePages() {
			for _, p := range page(t, pages.NextPage).Parameters {
				all = append(all, *p.Name)
			}
		}
		return all
	},
	"Auto Scaling group": func(t *testing.T, w *world, at place) (all []string) {
		pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(autoscaling.NewFromConfig(w.at(t, at)), &autoscaling.DescribeAutoScalingGroupsInput{})
		for pages.HasMorePages() {
			for _, g := range page(t, pages.NextPage).AutoScalingGroups {
				all = append(all, *g.AutoScalingGroupName)
			}
		}
		return all
	},
	"launch template": func(t *testing.T, w *world, at place) (all []string) {
		// Moto's pages are of 15 unless asked, and say not that there are more.
		pages := ec2.NewDescribeLaunchTemplatesPaginator(ec2.NewFromConfig(w.at(t, at)), &ec2.DescribeLaunchTemplatesInput{MaxResults: aws.Int32(200)})
		for pages.HasMorePages() {
			for _, l := range page(t, pages.NextPage).LaunchTemplates {
				all = append(all, *l.LaunchTemplateName)
			}
		}
		return all
	},
	"security group": func(t *testing.T, w *world, at place) (all []string) {
		pages := ec2.NewDescribeSecurityGroupsPaginator(ec2.NewFromConfig(w.at(t, at)), &ec2.DescribeSecurityGroupsInput{})
		for pages.HasMorePages() {
			for _, g := range page(t, pages.NextPage).SecurityGroups {
				if *g.GroupName != "default" { // EC2's own, which comes and goes with a VPC
					all = append(all, *g.GroupName)
				}
			}
		}
		return all
	},
	"load balancer": func(t *testing.T, w *world, at place) (all []string) {
		pages := elb.NewDescribeLoadBalancersPaginator(elb.NewFromConfig(w.at(t, at)), &elb.DescribeLoadBalancersInput{})
		for pages.HasMorePages() {
			for _, b := range page(t, pages.NextPage).LoadBalancers {
				all = append(all, *b.LoadBalancerName)
			}
		}
		return all
	},
	"target group": func(t *testing.T, w *world, at place) (all []string) {
		pages := elb.NewDescribeTargetGroupsPaginator(elb.NewFromConfig(w.at(t, at)), &elb.DescribeTargetGroupsInput{})
		for pages.HasMorePages() {
			for _, g := range page(t, pages.NextPage).TargetGroups {
				all = append(all, *g.TargetGroupName)
			}
		}
		return all
	},
	"role": func(t *testing.T, w *world, at place) (all []string) {
		pages := iam.NewListRolesPaginator(iam.NewFromConfig(w.at(t, at)), &iam.ListRolesInput{})
		for pages.HasMorePages() {
			for _, r := range page(t, pages.NextPage).Roles {
				all = append(all, *r.RoleName)
			}
		}
		return all
	},
	"instance profile": func(t *testing.T, w *world, at place) (all []string) {
		pages := iam.NewListInstanceProfilesPaginator(iam.NewFromConfig(w.at(t, at)), &iam.ListInstanceProfilesInput{})
		for pages.HasMorePages() {
			for _, p := range page(t, pages.NextPage).InstanceProfiles {
				all = append(all, *p.InstanceProfileName)
			}
		}
		return all
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
	"dashboard": func(t *testing.T, w *world, at place) (all []string) {
		var out struct {
			DashboardEntries []struct{ DashboardName string }
		}
		w.aws.Ask(t, at.account, at.region, "monitoring", "1.0", "GraniteServiceVersion20100801.ListDashboards", nil, &out)
		for _, d := range out.DashboardEntries {
			all = append(all, d.DashboardName)
		}
		return all
	},
	"insight rule": func(t *testing.T, w *world, at place) (all []string) {
		var out struct{ InsightRules []struct{ Name string } }
		w.aws.Ask(t, at.account, at.region, "monitoring", "1.0", "GraniteServiceVersion20100801.DescribeInsightRules", nil, &out)
		for _, r := range out.InsightRules {
			all = append(all, r.Name)
		}
		return all
	},
	"rule": func(t *testing.T, w *world, at place) (all []string) {
		var out struct{ Rules []struct{ Name string } }
		w.aws.Ask(t, at.account, at.region, "events", "1.1", "AWSEvents.ListRules", nil, &out)
		for _, r := range out.Rules {
			all = append(all, r.Name)
		}
		return all
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

// page is the next of an SDK's pages.
func page[Out, Option any](t *testing.T, next func(context.Context, ...Option) (*Out, error)) *Out {
	t.Helper()
	out, err := next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}
