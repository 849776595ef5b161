// Package handlertest makes what tests put into the events of an HTTP API.
package handlertest

import "encoding/base64"

// Bearer is an Authorization header with a token of these claims, a JSON text. It has the shape of a signed
// token and a signature that verifies nowhere: behind an HTTP API it is the authorizer that verifies.
func Bearer(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return "Bearer " + encode([]byte(`{"alg":"RS256","kid":"k1"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("signature"))
}
