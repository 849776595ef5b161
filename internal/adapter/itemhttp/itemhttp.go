// Package itemhttp carries a cell's store over HTTP: Handler serves one, Store is it as one shard sees it.
// They stand together because they are the two ends of one wire format. Whom to let in is the caller's
// task.
//
//	GET  /v1/items?tenant=&key=              200 and the item, or 404
//	GET  /v1/items/keys?tenant=&prefix=&after=  200 and a JSON list of keys, in byte order; the store may cut
//	                                         it off, an empty list is the end
//	GET  /v1/items/held?cell=&shard=&tenant=    200 and the epoch, or 404
//	POST /v1/items/write                     one transaction: 204 once it is durable, 421 when the shard does
//	                                         not hold the tenant, 409 when something is not as a write
//	                                         wants it to be, 400 when it is not valid
//
// A context's deadline goes along in the header cellwall-deadline. A store that heeds it writes nothing
// after it.
package itemhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

const (
	pathItem  = "/v1/items"
	pathKeys  = "/v1/items/keys"
	pathHeld  = "/v1/items/held"
	pathWrite = "/v1/items/write"

	// maxAnswer bounds what is read of one answer, in bytes.
	maxAnswer = 16 << 20
)

// transaction is the body of a write.
type transaction struct {
	Cell   string           `json:"cell"`
	Shard  string           `json:"shard"`
	Tenant string           `json:"tenant"`
	Epoch  uint64           `json:"epoch"`
	Writes []shardkit.Write `json:"writes"`
}

// Store is a cell's store as one of its shards sees it.
type Store struct {
	base, token string
	cell, shard string
	client      *http.Client
}

var _ shardkit.Items = (*Store)(nil)

// New returns the store at base, an http or https URL, for a shard of a cell. token, when not empty, is
// sent as bearer token.
func New(base, token, cell, shard string) (*Store, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("address of the store: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" {
		return nil, fmt.Errorf("address of the store %q: want http://host:port", base)
	}
	if cell == "" || shard == "" {
		return nil, errors.New("the store asks for which shard of which cell it is used")
	}
	// No proxy: the store is a neighbour, and the token is nobody else's business.
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
	return &Store{strings.TrimSuffix(base, "/"), token, cell, shard, &http.Client{Transport: transport}}, nil
}

// Held implements shardkit.Items.
func (s *Store) Held(ctx context.Context, tenant string) (epoch uint64, held bool, err error) {
	status, text, err := s.do(ctx, http.MethodGet, pathHeld, url.Values{"cell": {s.cell}, "shard": {s.shard}, "tenant": {tenant}}, nil)
	switch {
	case err != nil:
	case status == http.StatusNotFound:
		return 0, false, nil
	case status != http.StatusOK:
		err = fmt.Errorf("store answered %d", status)
	default:
		epoch, err = strconv.ParseUint(string(text), 10, 64)
	}
	if err != nil {
		return 0, false, fmt.Errorf("ask whether the tenant is held: %w", err)
	}
	return epoch, true, nil
}

// Get implements shardkit.Items.
func (s *Store) Get(ctx context.Context, tenant, key string) (value []byte, found bool, err error) {
	status, value, err := s.do(ctx, http.MethodGet, pathItem, url.Values{"tenant": {tenant}, "key": {key}}, nil)
	switch {
	case err != nil:
	case status == http.StatusNotFound:
		return nil, false, nil
	case status != http.StatusOK:
		err = fmt.Errorf("store answered %d", status)
	}
	if err != nil {
		return nil, false, fmt.Errorf("get item: %w", err)
	}
	return value, true, nil
}

// List implements shardkit.Items.
func (s *Store) List(ctx context.Context, tenant, prefix string) ([]string, error) {
	var keys []string
	for after := ""; ; after = keys[len(keys)-1] {
		page, err := s.page(ctx, tenant, prefix, after)
		if err != nil {
			return nil, fmt.Errorf("list items: %w", err)
		}
		if len(page) == 0 {
			return keys, nil
		}
		if page[0] <= after {
			return nil, errors.New("list items: the store does not go on after the last key")
		}
		keys = append(keys, page...)
	}
}

func (s *Store) page(ctx context.Context, tenant, prefix, after string) ([]string, error) {
	status, body, err := s.do(ctx, http.MethodGet, pathKeys, url.Values{"tenant": {tenant}, "prefix": {prefix}, "after": {after}}, nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("store answered %d", status)
	}
	var page []string
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, fmt.Errorf("store's answer: %w", err)
	}
	return page, nil
}

// Write implements shardkit.Items.
func (s *Store) Write(ctx context.Context, tenant string, epoch uint64, writes ...shardkit.Write) error {
	err := shardkit.Check(writes...)
	if err != nil {
		return err
	}
	body, err := json.Marshal(transaction{s.cell, s.shard, tenant, epoch, writes})
	if err != nil {
		return fmt.Errorf("write items: %w", err)
	}
	status, _, err := s.do(ctx, http.MethodPost, pathWrite, nil, body)
	switch {
	case err != nil:
	case status == http.StatusMisdirectedRequest:
		err = shardkit.ErrNotHeld
	case status == http.StatusConflict:
		err = shardkit.ErrChanged
	case status == http.StatusBadRequest:
		err = shardkit.ErrInvalid
	case status != http.StatusNoContent:
		err = fmt.Errorf("store answered %d", status)
	}
	if err != nil {
		return fmt.Errorf("write items: %w", err)
	}
	return nil
}

func (s *Store) do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	routing.SetDeadline(ctx, req.Header) // the store learns only late that nobody waits any more
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		// The address in the error's text holds the tenant's keys, which no log needs.
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err
		}
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, err
	case len(answer) > maxAnswer:
		return 0, nil, errors.New("store's answer is larger than 16 MB")
	}
	return resp.StatusCode, answer, nil
}
