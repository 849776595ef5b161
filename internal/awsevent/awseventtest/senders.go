package awseventtest

import (
	"encoding/json"
	"net/url"
	"strings"
)

// Senders are all that a function of cellwall's can stand behind. A streaming Function URL sends the same events.
func Senders() []Sender {
	return []Sender{
		{"HTTP API", HTTPAPI, Answer2}, {"Function URL", FunctionURL, Answer2}, {"REST API", REST, AnswerREST},
		{"ALB", ALB, AnswerALB}, {"multi-value ALB", ALBMulti, AnswerALBMulti},
	}
}

// HTTPAPI is the event of an HTTP API, payload format 2.0.
func HTTPAPI(c Client) []byte {
	return c.event2(unescape(c.Path, url.PathUnescape), "abc123.execute-api.eu-west-1.amazonaws.com")
}

// FunctionURL is the event of a Function URL.
func FunctionURL(c Client) []byte {
	return c.event2(c.Path, "abc123.lambda-url.eu-west-1.on.aws")
}

func (c Client) event2(path, domain string) []byte {
	headers := object{}
	at := map[string]int{}
	var cookies []string
	for _, h := range c.headers() {
		name := strings.ToLower(h[0])
		if name == "cookie" {
			cookies = append(cookies, strings.Split(h[1], "; ")...)
			continue
		}
		if i, known := at[name]; known {
			headers[i].value = headers[i].value.(string) + "," + h[1]
			continue
		}
		at[name] = len(headers)
		headers = append(headers, member{name, h[1]})
	}
	context := object{
		{"accountId", "111111111111"}, {"apiId", "abc123"}, {"domainName", domain}, {"domainPrefix", "abc123"},
		{"http", object{{"method", c.Method}, {"path", path}, {"protocol", "HTTP/1.1"}, {"sourceIp", "192.0.2.7"}, {"userAgent", "curl/8.5.0"}}},
		{"requestId", "J1"}, {"routeKey", "$default"}, {"stage", "$default"}, {"time", "30/Nov/2026:10:00:00 +0000"}, {"timeEpoch", 1796032800000},
	}
	if c.Claims != "" {
		context = append(context, member{"authorizer", object{{"jwt", object{{"claims", json.RawMessage(c.Claims)}, {"scopes", nil}}}}})
	}
	e := object{{"version", "2.0"}, {"routeKey", "$default"}, {"rawPath", path}, {"rawQueryString", c.Query}}
	if len(cookies) > 0 {
		e = append(e, member{"cookies", cookies})
	}
	e = append(e, member{"headers", headers})
	if query := lists(decoded(pairs(c.Query))); len(query) > 0 {
		for i, m := range query {
			query[i].value = strings.Join(m.value.([]string), ",")
		}
		e = append(e, member{"queryStringParameters", query})
	}
	e = append(e, member{"requestContext", context})
	body, isBase64 := c.body()
	if body != "" {
		e = append(e, member{"body", body})
	}
	return encode(append(e, member{"isBase64Encoded", isBase64}))
}

// REST is the event of a REST API's proxy integration, with a Cognito authorizer, and all media types binary.
func REST(c Client) []byte {
	var headers []pair
	for _, h := range c.headers() {
		headers = append(headers, pair{h[0], h[1]}) // under the names that the client wrote
	}
	query := decoded(pairs(c.Query))
	context := object{
		{"accountId", "111111111111"}, {"apiId", "abc123"}, {"domainName", host}, {"httpMethod", c.Method},
		{"identity", object{{"sourceIp", "192.0.2.7"}, {"userArn", nil}, {"userAgent", "curl/8.5.0"}}},
		{"path", "/prod" + c.Path}, {"requestId", "J1"}, {"resourcePath", "/{proxy+}"}, {"stage", "prod"},
	}
	if c.Claims != "" {
		context = append(context, member{"authorizer", object{{"claims", json.RawMessage(c.Claims)}}})
	}
	var body any // null where there is none
	text, isBase64 := c.body()
	if text != "" {
		body = text
	}
	return encode(object{
		{"resource", "/{proxy+}"}, {"path", c.Path}, {"httpMethod", c.Method},
		{"headers", last(headers)}, {"multiValueHeaders", lists(headers)},
		{"queryStringParameters", last(query).orNull()}, {"multiValueQueryStringParameters", lists(query).orNull()},
		{"pathParameters", object{{"proxy", strings.TrimPrefix(c.Path, "/")}}}, {"stageVariables", nil},
		{"requestContext", context}, {"body", body}, {"isBase64Encoded", isBase64},
	})
}

// ALB is the event of a load balancer's target group without multi-value headers.
func ALB(c Client) []byte {
	return c.eventALB(member{"queryStringParameters", last(pairs(c.Query))}, member{"headers", last(c.lower())})
}

// ALBMulti is the event of a load balancer's target group with multi-value headers.
func ALBMulti(c Client) []byte {
	return c.eventALB(member{"multiValueQueryStringParameters", lists(pairs(c.Query))}, member{"multiValueHeaders", lists(c.lower())})
}

func (c Client) lower() []pair {
	var out []pair
	for _, h := range c.headers() {
		out = append(out, pair{strings.ToLower(h[0]), h[1]})
	}
	return out
}

func (c Client) eventALB(query, headers member) []byte {
	body, isBase64 := c.body()
	return encode(object{
		{"requestContext", object{{"elb", object{{"targetGroupArn", "arn:aws:elasticloadbalancing:eu-west-1:111111111111:targetgroup/router/0123456789abcdef"}}}}},
		{"httpMethod", c.Method}, {"path", c.Path}, query, headers, {"body", body}, {"isBase64Encoded", isBase64},
	})
}
