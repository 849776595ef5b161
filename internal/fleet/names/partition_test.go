package names

import "testing"

func TestPartition(t *testing.T) {
	for region, want := range map[string]string{
		"eu-west-1": "aws", "ca-central-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov", "us-iso-east-1": "aws-iso",
		"us-isob-east-1": "aws-iso-b", "eu-isoe-west-1": "aws-iso-e", "us-isof-south-1": "aws-iso-f", "eusc-de-east-1": "aws-eusc",
	} {
		if got := Partition(region); got != want {
			t.Errorf("%s is in %s, want %s", region, got, want)
		}
	}
}
