package httpdir

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/directory"
)

// Client is a directory.Home that asks a HomeHandler, or a ServingHandler. It does not repeat requests.
type Client struct{ caller }

var _ directory.Home = (*Client)(nil)

// NewClient returns a client of the handler at base, an http or https URL without a path. It sends token
// as bearer token. client is http.DefaultClient when nil.
func NewClient(base, token string, client *http.Client) (*Client, error) {
	c, err := newCaller("the directory", base, token, client)
	return &Client{c}, err
}

// Read implements directory.Home. It asks once for each hundred keys.
func (c *Client) Read(ctx context.Context, consistency directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	all := make([]directory.Record, 0, len(keys))
	for some := range slices.Chunk(keys, maxKeys) {
		in := readRequest{Consistency: consistency}
		for _, k := range some {
			// JSON would mend these into other keys.
			if !utf8.ValidString(k.Part) || !utf8.ValidString(k.Sort) {
				return nil, fmt.Errorf("read the directory: %w: key %v is no UTF-8", directory.ErrInvalid, k)
			}
			in.Keys = append(in.Keys, toWireKey(k))
		}
		var out records
		if err := c.do(ctx, pathRead, in, &out); err != nil {
			return nil, err
		}
		if len(out.Records) != len(some) {
			return nil, fmt.Errorf("the directory answered with %d records for %d keys", len(out.Records), len(some))
		}
		all = append(all, fromWireRecords(out.Records)...)
	}
	return all, ctx.Err()
}

// Write implements directory.Home.
func (c *Client) Write(ctx context.Context, b directory.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.Check(); err != nil { // here, too, since JSON would mend what is no UTF-8
		return err
	}
	in := writeRequest{Operation: b.Operation, Ops: make([]wireOp, len(b.Ops))}
	for i, o := range b.Ops {
		in.Ops[i] = wireOp{toWireKey(o.Key), o.Expect, o.Put, o.Body, o.Index, o.Deltas}
	}
	return c.do(ctx, pathWrite, in, &struct{}{})
}

// List implements directory.Home. It may ask several times.
func (c *Client) List(ctx context.Context, r directory.Range, after directory.Key, limit int) ([]directory.Record, error) {
	if err := directory.CheckRange(r, limit); err != nil {
		return nil, err
	}
	all := []directory.Record{}
	for {
		in := listRequest{r.Family, r.Part, r.Index, r.Value, toWireKey(after), limit - len(all)}
		var out records
		if err := c.do(ctx, pathList, in, &out); err != nil {
			return nil, err
		}
		all = append(all, fromWireRecords(out.Records)...)
		if !out.More || len(out.Records) == 0 || len(all) >= limit {
			return all, nil
		}
		after = all[len(all)-1].Key
	}
}

// Changes implements directory.Home.
func (c *Client) Changes(ctx context.Context, after directory.Cursor, limit int) ([]directory.Record, directory.Cursor, error) {
	var out records
	if err := c.do(ctx, pathChanges, changesRequest{after, limit}, &out); err != nil {
		return nil, "", err
	}
	return fromWireRecords(out.Records), out.Next, nil
}

// Holds is a directory.Holder that asks a HoldsHandler.
type Holds struct{ caller }

var (
	_ directory.ManyHolder = (*Holds)(nil)
	_ directory.Forgetter  = (*Holds)(nil)
)

// NewHolds is NewClient for the holdings.
func NewHolds(base, token string, client *http.Client) (*Holds, error) {
	c, err := newCaller("the store", base, token, client)
	return &Holds{c}, err
}

// Hold implements directory.Holder.
func (h *Holds) Hold(ctx context.Context, cell, shard string, one directory.Holding) error {
	return h.HoldMany(ctx, cell, shard, []directory.Holding{one})
}

// HoldMany is Hold for each of many, by one request.
func (h *Holds) HoldMany(ctx context.Context, cell, shard string, many []directory.Holding) error {
	return h.do(ctx, pathHold, holdsRequest{Cell: cell, Shard: shard, Holdings: many}, &struct{}{})
}

// Release implements directory.Holder.
func (h *Holds) Release(ctx context.Context, cell, shard string, one directory.Holding) error {
	return h.do(ctx, pathRelease, holdsRequest{Cell: cell, Shard: shard, Holdings: []directory.Holding{one}}, &struct{}{})
}

// Forget implements directory.Forgetter.
func (h *Holds) Forget(ctx context.Context, cell, shard string, one directory.Holding) error {
	return h.do(ctx, pathForget, holdsRequest{Cell: cell, Shard: shard, Holdings: []directory.Holding{one}}, &struct{}{})
}

// Held implements directory.Holder.
func (h *Holds) Held(ctx context.Context, cell, shard, tenant string) (one directory.Holding, ok bool, err error) {
	var out holdings
	err = h.do(ctx, pathHeld, holdsRequest{Cell: cell, Shard: shard, Tenant: tenant}, &out)
	if len(out.Holdings) > 0 {
		return out.Holdings[0], true, err
	}
	return directory.Holding{}, false, err
}

// Holdings implements directory.Holder. It may ask several times.
func (h *Holds) Holdings(ctx context.Context, cell, shard, after string, limit int) ([]directory.Holding, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list the tenants of shard %s/%s: limit %d: want at least 1", cell, shard, limit)
	}
	all := []directory.Holding{}
	for {
		size := min(limit-len(all), maxPage)
		var out holdings
		if err := h.do(ctx, pathHoldings, holdsRequest{Cell: cell, Shard: shard, After: after, Limit: size}, &out); err != nil {
			return nil, err
		}
		all = append(all, out.Holdings...)
		if len(out.Holdings) < size || len(all) >= limit {
			return all, nil
		}
		after = all[len(all)-1].Tenant
	}
}

// caller asks one server.
type caller struct {
	whom        string // as errors call it
	base, token string
	http        *http.Client
}

func newCaller(whom, base, token string, client *http.Client) (caller, error) {
	u, err := url.Parse(base)
	if err != nil {
		return caller{}, fmt.Errorf("%s's address: %w", whom, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return caller{}, fmt.Errorf("%s's address %q: want http://host:port", whom, u.Redacted())
	}
	if client == nil {
		client = http.DefaultClient
	}
	return caller{whom, u.Scheme + "://" + u.Host, token, client}, nil
}

func (c caller) do(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.whom, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.whom, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.whom, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read %s's answer: %w", c.whom, err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read %s's answer: %w", c.whom, err)
	}
	return nil
}
