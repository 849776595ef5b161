package fleet

import (
	"regexp"
	"strings"
)

// shape is a form that a text must have. Fields name theirs with the struct tag shape:"…" (for a list:
// its items, for a dictionary: its values) and keys:"…" (a dictionary's keys). The JSON Schema has its
// patterns from here as well.
type shape struct {
	pattern *regexp.Regexp
	want    string              // completes "it must be …"
	fix     func(string) string // what to write instead of a text
}

// always gives the same fix for every text.
func always(fix string) func(string) string { return func(string) string { return fix } }

const hexID = `(?:[0-9a-f]{8}|[0-9a-f]{17})` // EC2's short and long resource ids

const region = `[a-z]{2,4}(?:-(?:gov|iso|isob|isoe|isof|de))?-(?:north|south|east|west|central|northeast|northwest|southeast|southwest)-[1-9]`

var shapes = map[string]shape{
	"name": {
		regexp.MustCompile(`^[a-z](?:[a-z0-9-]{0,14}[a-z0-9])?$`),
		"a lower-case letter, then at most 15 lower-case letters, digits and hyphens, with no hyphen at the end",
		suggestName,
	},
	"account": {
		regexp.MustCompile(`^[0-9]{12}$`),
		"an AWS account id, which has 12 digits",
		always(`write all 12 digits in quotes, such as "111111111111"`),
	},
	"region": {
		regexp.MustCompile(`^` + region + `$`),
		"an AWS region",
		always("write its code, such as eu-west-1, us-gov-west-1 or ap-southeast-2"),
	},
	"zone": {
		regexp.MustCompile(`^[a-z]$`),
		"the letter of an availability zone",
		func(text string) string {
			if n := len(text); n > 1 && regexp.MustCompile(`^`+region+`[a-z]$`).MatchString(text) {
				return "write " + text[n-1:] + ", without the region"
			}
			return "write one lower-case letter, such as a"
		},
	},
	"amiKey": {
		regexp.MustCompile(`^` + region + `/(?:arm64|x86_64)$`),
		"a region and an architecture",
		always("write it as eu-west-1/arm64 or eu-west-1/x86_64"),
	},
	"ami": {
		regexp.MustCompile(`^ami-` + hexID + `$`),
		"the id of a machine image",
		always("write ami- and its 8 or 17 hexadecimal digits"),
	},
	"vpc": {
		regexp.MustCompile(`^vpc-` + hexID + `$`),
		"the id of a VPC",
		always("write vpc- and its 8 or 17 hexadecimal digits"),
	},
	"subnet": {
		regexp.MustCompile(`^subnet-` + hexID + `$`),
		"the id of a subnet",
		always("write subnet- and its 8 or 17 hexadecimal digits"),
	},
	"topic": {
		regexp.MustCompile(`^arn:aws(?:-[a-z]+)*:sns:` + region + `:[0-9]{12}:[A-Za-z0-9_-]{1,256}$`),
		"the ARN of an SNS standard topic",
		always("write it as arn:aws:sns:eu-west-1:111111111111:oncall"),
	},
	"qualifier": {
		regexp.MustCompile(`^[a-z0-9]{1,10}$`),
		"a bootstrap qualifier: 1 to 10 lower-case letters and digits",
		always("write what cdk bootstrap --qualifier was given"),
	},
	"policy": {
		regexp.MustCompile(`^[A-Za-z0-9+=,.@_-]{1,128}$`),
		"the name of a managed policy",
		always("write the name alone, without ARN and path"),
	},
	"tagKey": {
		regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 +=.@_:/-]{0,127}$`),
		"the key of a tag: letters, digits, spaces and + - = . _ : / @, 128 characters at most",
		always("write it as team or cost-center"),
	},
	"tagValue": {
		regexp.MustCompile(`^[A-Za-z0-9 +=.@_:/-]{1,256}$`),
		"the value of a tag: letters, digits, spaces and + - = . _ : / @, 256 characters at most",
		always("write it as payments"),
	},
	"instanceType": {
		regexp.MustCompile(`^[a-z][a-z0-9-]*[0-9][a-z0-9-]*\.[a-z0-9-]+$`),
		"an EC2 instance type",
		always("write its family and size, such as t4g.small"),
	},
	"issuer": {
		regexp.MustCompile(`^https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?$`),
		"an https URL without a query, exactly as in the token's iss",
		func(text string) string {
			if rest, ok := strings.CutPrefix(text, "http://"); ok {
				return "write https://" + rest
			}
			return "write it as https://login.example.com/"
		},
	},
	"claim": {
		regexp.MustCompile(`^[!-~]{1,128}$`),
		"the name of a claim: 1 to 128 visible ASCII characters",
		always("write it as tenant_id"),
	},
	"algorithm": {
		regexp.MustCompile(`^(?:[RPE]S(?:256|384|512)|EdDSA)$`),
		"an asymmetric signature algorithm (RFC 7518, RFC 8037)",
		always("write one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA"),
	},
	"function": {
		regexp.MustCompile(`^arn:aws(?:-[a-z]+)*:lambda:` + region + `:[0-9]{12}:function:[A-Za-z0-9_-]{1,64}(?::[A-Za-z0-9_$-]{1,128})?$`),
		"the ARN of a Lambda function",
		always("write it as arn:aws:lambda:eu-west-1:111111111111:function:authorizer"),
	},
	"principal": {
		regexp.MustCompile(`^arn:aws(?:-[a-z]+)*:iam::[0-9]{12}:(?:role|user)/(?:[A-Za-z0-9+=,.@_-]{1,512}/)*[A-Za-z0-9+=,.@_-]{1,64}$`),
		"the ARN of an IAM role or user",
		always("write it as arn:aws:iam::111111111111:role/acme"),
	},
	"tenant": {
		regexp.MustCompile(`^[^\x00]{1,128}$`),
		"a tenant's id: 1 to 128 bytes of UTF-8",
		always("write it exactly as in the directory"),
	},
	"pathTenant": {
		regexp.MustCompile(`^/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)*\{tenant\}(?:/\*)?$`),
		"a plain path with {tenant} as its last segment, or followed by /*",
		always("write it as /tenants/{tenant}/*"),
	},
	"audience": {
		regexp.MustCompile(`^[!-~]{1,256}$`),
		"an audience: 1 to 256 visible ASCII characters",
		always("write it exactly as in the token's aud, in quotes if it is a number"),
	},
	"command": {
		regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`),
		"the name of a file in the asset: letters, digits, dots, hyphens and underscores",
		always("write the file's name alone, such as worker"),
	},
	"asset": {
		regexp.MustCompile(`^[^\x00-\x1f]*[^\x00-\x1f./ ][^\x00-\x1f]*$`),
		"the path of a folder, and not the fleet file's own",
		always("write it relative to the fleet file, such as dist/worker"),
	},
	"file": {
		regexp.MustCompile(`^[^\x00-\x1f]*[^\x00-\x1f./ ][^\x00-\x1f]*$`),
		"the path of a file",
		always("write it relative to the fleet file, such as waivers.yaml"),
	},
	"path": {
		regexp.MustCompile(`^/[!-~]{0,999}$`),
		"a path, which begins with / and has no space",
		func(text string) string {
			if text = strings.ReplaceAll(strings.TrimLeft(text, "/"), " ", "%20"); regexp.MustCompile(`^[!-~]*$`).MatchString(text) {
				return "write " + quote("/"+text)
			}
			return "write it percent-encoded, such as /caf%C3%A9"
		},
	},
}

// suggestName turns a text into a name as far as that is possible.
func suggestName(text string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9' && b.Len() > 0:
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == 16 {
			break
		}
	}
	name := strings.TrimRight(b.String(), "-")
	if name == "" {
		return "write a name such as eu-1"
	}
	return "write a name such as " + name
}
