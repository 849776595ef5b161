package shardhttp

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"cellwall.dev/cellwall/internal/routing"
)

// maxPage is ample for a load balancer's own page, in bytes; they have about 120.
const maxPage = 1 << 10

// balancerError is what a load balancer says by itself in place of a target, with which the service has answered
// nothing; nil for any other answer. What it means of the request is what "Troubleshoot your Application Load
// Balancers" (Elastic Load Balancing documentation) lists for the status:
//
//   - 502: a target closed the connection or answered nonsense, possibly after it did what it was asked for;
//   - 503: there are no registered targets, or none in use, so that the request reached nobody;
//   - 504: no target could be connected to, or one did not answer in time.
//
// A page of HTML by the server awselb/2.0 is the load balancer's: it passes a target's Server on as it is. Where it
// stands in for a Lambda function it puts its name on the function's answers, too, which is why a 503 counts as not
// sent by the page's title only.
func balancerError(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return nil
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != "text/html" || !strings.HasPrefix(resp.Header.Get("Server"), "awselb/") {
		return nil
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(io.LimitReader(resp.Body, maxPage)) // of half a page, the status still stands
	err = fmt.Errorf("its load balancer answered %d by itself", resp.StatusCode)
	switch {
	case resp.StatusCode == http.StatusGatewayTimeout:
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	case resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(page), "<title>503 Service Temporarily Unavailable</title>"):
		return fmt.Errorf("%w: %w: it has no targets", routing.ErrNotSent, err)
	}
	return err
}
