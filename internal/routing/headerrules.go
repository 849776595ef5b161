package routing

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// The header rules. A shard must be able to trust what it reads of who asks and of the way that a request
// came, so a client's header is dropped when its name
//
//   - has an underscore, which CGI, WSGI and others read as a hyphen (nginx drops these, too);
//   - concerns the connection: hopByHop, or named by Connection;
//   - has the letters cellwall, tenant or shard anywhere, or one of foreignWords between separators: it
//     could name a tenant, a shard, a subset, an epoch, a cell or a hop;
//   - begins like one of foreignPrefixes, or is one of foreignNames: proxies in front of a service state
//     there who asks, by which address, under which path or method, and services believe it.
//
// Of the X-Forwarded family three stay, with what the ingress vouches for alone: see vouched. Everything
// else passes, with Idempotency-Key, X-Request-Id, traceparent, tracestate, X-Amzn-Trace-Id, Authorization
// and Cookie.

// hopByHop are the headers that concern one connection only (RFC 9110, section 7.6.1), with those that
// older software treats so. Expect is answered by whoever received the request.
var hopByHop = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-connection": true, "proxy-authenticate": true,
	"proxy-authorization": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
	"expect": true,
}

// foreignParts make a name the router's wherever they stand in it: xtenantid is x-tenant-id to many.
var foreignParts = []string{"cellwall", "tenant", "shard"}

// foreignWords are what services call a tenant, which is a customer organisation, and the rest of what the
// router decides. Words are what stands between hyphens, dots and the like.
var foreignWords = map[string]bool{
	"org": true, "orgid": true, "organization": true, "organisation": true, "customer": true, "customerid": true,
	"account": true, "accountid": true, "workspace": true, "workspaceid": true,
	"company": true, "companyid": true, "merchant": true, "merchantid": true,
	"subset": true, "epoch": true, "cell": true, "cellid": true, "hop": true, "hops": true,
}

// foreignPrefixes begin the headers in which gateways, meshes and authenticating proxies tell a service what
// they know: of AWS (ALB's x-amzn-oidc-* and x-amzn-mtls-*, the Lambda Web Adapter's x-amzn-request-context, the
// event that serverless-express reads from x-apigateway-*), Envoy and Istio, oauth2-proxy, Kong, Google's IAP, Azure's
// App Service, Cloudflare Access, Pomerium, Tailscale, TLS terminators (RFC 9440), and those that rewrite a path or a
// method.
var foreignPrefixes = []string{
	"x-amzn-", "x-amz-source-", "x-amz-security-token", "x-apigateway-",
	"x-envoy-", "x-istio-",
	"x-forwarded", "x-original-", "x-rewrite-", "x-http-method", "x-method-override",
	"x-auth-request-", "x-authenticated-", "x-consumer-", "x-credential-", "x-jwt-", "x-claim",
	"x-goog-authenticated-", "x-goog-iap-", "x-ms-client-principal", "cf-access-", "x-webauth-", "x-pomerium-", "tailscale-",
	"x-remote-", "remote-", "x-ssl-", "ssl-", "x-client-cert", "client-cert", "x-client-verify", "x-client-dn",
	"uberctx-",
}

// foreignNames are the rest: the peer's address under other names, the chain of proxies, the script's path,
// a CGI program's proxy (httpoxy), and context that services attach for services.
var foreignNames = map[string]bool{
	"forwarded": true, "via": true, "max-forwards": true,
	"x-real-ip": true, "x-client-ip": true, "client-ip": true, "true-client-ip": true, "x-cluster-client-ip": true,
	"cf-connecting-ip": true, "fastly-client-ip": true, "x-appengine-user-ip": true,
	"script-name": true, "x-script-name": true, "path-info": true, "x-url-scheme": true, "front-end-https": true,
	"proxy": true, "x-anonymous-consumer": true, "baggage": true, "jaeger-baggage": true,
}

// trusted are the exceptions from foreignPrefixes: AWS writes them, and they name a request.
var trusted = map[string]bool{"x-amzn-trace-id": true, "x-amzn-requestid": true}

// shardParts, shardWords, shardPrefixes and shardNames are what a client does not get of a shard's answer:
// by them it could learn which shard or machine of it answered, or go there itself (Alt-Svc, RFC 7838).
var (
	shardParts = []string{"cellwall", "shard"}
	shardWords = map[string]bool{
		"subset": true, "epoch": true, "cell": true, "cellid": true, "hop": true, "hops": true,
		"backend": true, "upstream": true, "hostname": true, "instance": true, "pod": true,
	}
	shardPrefixes = []string{"x-envoy-", "x-istio-", "x-forwarded", "x-amz-executed-version", "x-amz-function-error", "x-amz-log-result", "x-accel-"}
	shardNames    = map[string]bool{"via": true, "alt-svc": true, "x-served-by": true, "x-server": true, "x-host": true, "x-node": true, "x-sendfile": true}
)

// common and commonOfShards are names that most requests and answers have and that pass: looking here first is what
// the rules cost them.
var (
	common = setOf("Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control", "Content-Length", "Content-Type", "Cookie",
		"Host", "Idempotency-Key", "If-Match", "If-None-Match", "Origin", "Referer", "Traceparent", "Tracestate", "User-Agent", "X-Request-Id")
	commonOfShards = setOf("Cache-Control", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Etag", "Last-Modified", "Location", "Set-Cookie", "Vary")
)

func setOf(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, name := range names {
		m[name] = true
	}
	return m
}

// HeaderFromClient says whether a client's header of this name reaches a shard, by the rules above. The
// X-Forwarded family never does as the client sent it.
func HeaderFromClient(name string) bool {
	if common[name] {
		return true
	}
	if strings.IndexByte(name, '_') >= 0 {
		return false
	}
	var buf [64]byte
	key := lower(buf[:0], name)
	if hopByHop[string(key)] || foreignNames[string(key)] || containsOne(key, foreignParts) || hasWord(key, foreignWords) {
		return false
	}
	return !beginsLikeOne(key, foreignPrefixes) || trusted[string(key)]
}

// HeaderFromShard says whether a header of a shard's answer reaches the client.
func HeaderFromShard(name string) bool {
	if commonOfShards[name] {
		return true
	}
	var buf [64]byte
	key := lower(buf[:0], name)
	for i, c := range key {
		if c == '_' {
			key[i] = '-'
		}
	}
	return !hopByHop[string(key)] && !shardNames[string(key)] && !containsOne(key, shardParts) &&
		!hasWord(key, shardWords) && !beginsLikeOne(key, shardPrefixes)
}

// vouched writes the part of the X-Forwarded family for which the ingress stands: the address that it saw,
// which it appended to whatever the client sent, and the scheme and port that it was asked by. So a shard
// reads one address, not a chain whose beginning anybody could have written.
func vouched(client, h http.Header) {
	const family = "x-forwarded-"
	var found [3]struct {
		spellings int
		last      string
	}
	for name, values := range client {
		if len(name) <= len(family) || len(values) == 0 || !strings.EqualFold(name[:len(family)], family) {
			continue
		}
		for i, member := range [...]string{"for", "proto", "port"} {
			if strings.EqualFold(name[len(family):], member) {
				found[i].spellings++
				found[i].last = values[len(values)-1]
			}
		}
	}
	// Of several spellings of one name nobody knows the ingress's.
	if f := found[0]; f.spellings == 1 {
		last := strings.TrimSpace(f.last[strings.LastIndexByte(f.last, ',')+1:])
		if address, err := netip.ParseAddr(last); err == nil {
			h.Set("X-Forwarded-For", address.WithZone("").String())
		}
	}
	if f := found[1]; f.spellings == 1 && (f.last == "http" || f.last == "https") {
		h.Set("X-Forwarded-Proto", f.last)
	}
	if f := found[2]; f.spellings == 1 {
		if n, err := strconv.ParseUint(f.last, 10, 16); err == nil && n > 0 {
			h.Set("X-Forwarded-Port", strconv.FormatUint(n, 10))
		}
	}
}

// lower appends a name in lower case.
func lower(dst []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

func containsOne(key []byte, parts []string) bool {
	for _, part := range parts {
		for i := 0; i+len(part) <= len(key); i++ {
			if key[i] == part[0] && string(key[i:i+len(part)]) == part {
				return true
			}
		}
	}
	return false
}

func beginsLikeOne(key []byte, prefixes []string) bool {
	for _, p := range prefixes {
		if len(key) >= len(p) && string(key[:len(p)]) == p {
			return true
		}
	}
	return false
}

// hasWord says whether one of the words stands in a name between bytes that are no letter or digit.
func hasWord(key []byte, words map[string]bool) bool {
	begin := 0
	for i := 0; i <= len(key); i++ {
		if i < len(key) && ('a' <= key[i] && key[i] <= 'z' || '0' <= key[i] && key[i] <= '9') {
			continue
		}
		if words[string(key[begin:i])] {
			return true
		}
		begin = i + 1
	}
	return false
}
