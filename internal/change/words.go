package change

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
)

// called are types by the words that people have for them, where splitting the type's own name does not give
// them.
var called = map[string]string{
	"AWS::ApiGatewayV2::Api":                    "HTTP API",
	"AWS::AutoScaling::AutoScalingGroup":        "Auto Scaling group",
	"AWS::CloudWatch::InsightRule":              "Contributor Insights rule",
	"AWS::DynamoDB::GlobalTable":                "global table",
	"AWS::EC2::EIP":                             "public address",
	"AWS::EC2::NatGateway":                      "NAT gateway",
	"AWS::EC2::VPC":                             "VPC",
	"AWS::EC2::VPCEndpoint":                     "VPC endpoint",
	"AWS::EC2::VPCGatewayAttachment":            "attachment of the internet gateway",
	"AWS::ElasticLoadBalancingV2::ListenerRule": "listener's rule",
	"AWS::Events::Rule":                         "EventBridge rule",
	"AWS::IAM::Policy":                          "policy",
	"AWS::IAM::Role":                            "role",
	"AWS::KMS::Alias":                           "KMS alias",
	"AWS::KMS::Key":                             "KMS key",
	"AWS::Lambda::Alias":                        "function's alias",
	"AWS::Lambda::EventSourceMapping":           "event source",
	"AWS::Lambda::Permission":                   "function's permission",
	"AWS::Lambda::Url":                          "function's URL",
	"AWS::Lambda::Version":                      "function's version",
	"AWS::Route53::RecordSet":                   "DNS record",
	"AWS::SSM::Parameter":                       "SSM parameter",
}

// word is the type of a resource in words.
func word(typ string) string {
	if w, ok := called[typ]; ok {
		return w
	}
	parts := strings.Split(typ, "::")
	if len(parts) < 3 {
		return typ
	}
	var b strings.Builder
	letters := []rune(parts[len(parts)-1])
	for i, r := range letters {
		upper := unicode.IsUpper(r)
		if upper && i > 0 && (unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])) {
			b.WriteByte(' ')
		}
		if upper && (i+1 == len(letters) || !unicode.IsUpper(letters[i+1])) {
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// label is a resource in words: its type, and its construct or logical id.
func label(e *Resource) string { return word(e.Type) + " " + cmp.Or(e.Path, e.ID) }

func plural(n int, word string) string {
	switch {
	case n == 1:
		return "1 " + word
	case strings.HasSuffix(word, "s"), strings.HasSuffix(word, "x"):
		return fmt.Sprintf("%d %ses", n, word)
	case strings.HasSuffix(word, "y") && !strings.HasSuffix(word, "ey") && !strings.HasSuffix(word, "way"):
		return fmt.Sprintf("%d %sies", n, word[:len(word)-1])
	}
	return fmt.Sprintf("%d %ss", n, word)
}
