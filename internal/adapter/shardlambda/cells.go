package shardlambda

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/routing"
)

// NewCells returns a front door's transport to the routers of cells. function gives the ARN of a cell's router
// with its alias, "" for a cell that the fleet does not have; principal is the ARN of the role that the front door
// runs as, which those routers know. The client's bearer token goes along as routing.HeaderToken, for the cell to
// verify it again.
func NewCells(client Client, function func(cell string) string, principal string) *Transport {
	return &Transport{client, function, func(req *routing.Request) ([]byte, error) {
		token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		if !ok { // the scheme's name in another case
			_, token, _ = strings.Cut(req.Header.Get("Authorization"), " ")
		}
		forwarded := *req
		forwarded.Header = maps.Clone(req.Header)
		forwarded.Header.Set(routing.HeaderToken, token)
		return awsevent.FormatForwarded(&forwarded, principal)
	}}
}

// regions is a Client for functions named by ARN, in any region.
type regions struct {
	open    func(region string) Client
	mu      sync.Mutex
	clients map[string]Client
}

// ByRegion returns a client that asks, for each function, a client of the region in its ARN. open makes one when
// the region is first asked.
func ByRegion(open func(region string) Client) Client {
	return &regions{open: open, clients: map[string]Client{}}
}

func (r *regions) in(function *string) (Client, error) {
	if function == nil || *function == "" {
		return nil, fmt.Errorf("%w: the fleet has no such cell", routing.ErrNotSent)
	}
	parsed, err := arn.Parse(*function)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is no ARN: %w", routing.ErrNotSent, *function, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clients[parsed.Region]
	if c == nil {
		c = r.open(parsed.Region)
		r.clients[parsed.Region] = c
	}
	return c, nil
}

func (r *regions) Invoke(ctx context.Context, in *lambda.InvokeInput, options ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	c, err := r.in(in.FunctionName)
	if err != nil {
		return nil, err
	}
	return c.Invoke(ctx, in, options...)
}

func (r *regions) InvokeWithResponseStream(ctx context.Context, in *lambda.InvokeWithResponseStreamInput, options ...func(*lambda.Options)) (*lambda.InvokeWithResponseStreamOutput, error) {
	c, err := r.in(in.FunctionName)
	if err != nil {
		return nil, err
	}
	return c.InvokeWithResponseStream(ctx, in, options...)
}
