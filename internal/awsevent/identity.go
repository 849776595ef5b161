package awsevent

import (
	"bytes"
	"encoding/json"
	"strings"
)

// identity reads who asks, as the sender verified it, and from where.
func (e *event) identity(out *Event) {
	c := &e.RequestContext
	out.RequestID = c.RequestID
	switch out.Kind {
	case ALB, ALBMulti:
		// A load balancer verifies nobody here; it adds the address that connected to it as the last.
		out.RequestID = out.Request.Header.Get("X-Amzn-Trace-Id")
		if forwarded := out.Request.Header.Values("X-Forwarded-For"); len(forwarded) > 0 {
			last := forwarded[len(forwarded)-1]
			out.SourceIP = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
		}
		return
	case REST:
		out.SourceIP, out.Principal = c.Identity.SourceIP, c.Identity.UserARN
	case HTTPAPI, FunctionURL:
		if c.HTTP != nil {
			out.SourceIP = c.HTTP.SourceIP
		}
	}
	authorizer := object(c.Authorizer)
	iam := object(authorizer["iam"])
	// A JWT authorizer's claims stand under jwt. In format 1.0 they stand under claims, as a Cognito authorizer's
	// do. A REST API's Lambda authorizer cannot pretend to be one: its context holds no objects.
	out.Claims = object(object(authorizer["jwt"])["claims"])
	if out.Claims == nil {
		out.Claims = object(authorizer["claims"])
	}
	switch {
	case len(authorizer) == 0 || out.Claims != nil:
	case out.Kind == REST:
		out.Authorizer = authorizer
	case authorizer["jwt"] == nil && authorizer["lambda"] == nil && iam == nil:
		out.Claims = authorizer // flat, as some stand-ins for an HTTP API send them
	default:
		out.Authorizer = object(authorizer["lambda"])
		// Only a string decodes into one.
		_ = json.Unmarshal(iam["userArn"], &out.Principal)
	}
}

// object reads an object's members and leaves their values as they are, whatever they are: a claim may be a
// list. What is no object has none.
func object(raw json.RawMessage) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if bytes.HasPrefix(raw, []byte("{")) { // the decoder trims what it hands over
		_ = json.Unmarshal(raw, &members) // it is JSON: the decoder read it before
	}
	return members
}
