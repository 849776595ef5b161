package names

import "strings"

// partitions are the regions, by the beginning of their codes, that are not in the partition aws. Source: the
// partitions of the AWS SDKs' endpoint rules.
var partitions = []struct{ prefix, name string }{
	{"cn-", "aws-cn"},
	{"eu-isoe-", "aws-iso-e"},
	{"eusc-", "aws-eusc"},
	{"us-gov-", "aws-us-gov"},
	{"us-iso-", "aws-iso"},
	{"us-isob-", "aws-iso-b"},
	{"us-isof-", "aws-iso-f"},
}

// Partition is the AWS partition of a region, the second word of its ARNs.
func Partition(region string) string {
	for _, p := range partitions {
		if strings.HasPrefix(region, p.prefix) {
			return p.name
		}
	}
	return "aws"
}
