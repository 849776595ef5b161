// Package itemhttp keeps items in a store that is reached over HTTP:
//
//	PUT /v1/items?pk=…&sk=…     the item's bytes; 204 once they are durable
//	GET /v1/items?pk=…&sk=…     200 and the bytes, or 404
//	GET /v1/items?pk=…&after=…  200 and a JSON list of sort keys under pk after the given one, in byte
//	                            order; the store may cut it off, an empty list is the end
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
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/routing"
)

// maxAnswer bounds what is read of one answer, in bytes.
const maxAnswer = 16 << 20

// Store is one store.
type Store struct {
	items  string // address of the items
	token  string
	client *http.Client
}

// New returns the store at base, an http or https URL. token, when not empty, is sent as bearer token.
func New(base, token string) (*Store, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("address of the store: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" {
		return nil, fmt.Errorf("address of the store %q: want http://host:port", base)
	}
	// No proxy: the store is a neighbour, and the token is nobody else's business.
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
	return &Store{strings.TrimSuffix(base, "/") + "/v1/items", token, &http.Client{Transport: transport}}, nil
}

// Put writes an item over an older one, and returns nil when the store says that it is durable.
func (s *Store) Put(ctx context.Context, pk, sk string, value []byte) error {
	status, _, err := s.do(ctx, http.MethodPut, url.Values{"pk": {pk}, "sk": {sk}}, value)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("store answered %d", status)
	}
	if err != nil {
		return fmt.Errorf("put item: %w", err)
	}
	return nil
}

// Get reads an item.
func (s *Store) Get(ctx context.Context, pk, sk string) (value []byte, found bool, err error) {
	status, value, err := s.do(ctx, http.MethodGet, url.Values{"pk": {pk}, "sk": {sk}}, nil)
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

// List returns the sort keys under pk, in byte order.
func (s *Store) List(ctx context.Context, pk string) ([]string, error) {
	var keys []string
	for after := ""; ; after = keys[len(keys)-1] {
		page, err := s.page(ctx, pk, after)
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

func (s *Store) page(ctx context.Context, pk, after string) ([]string, error) {
	query := url.Values{"pk": {pk}}
	if after != "" {
		query.Set("after", after)
	}
	status, body, err := s.do(ctx, http.MethodGet, query, nil)
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

func (s *Store) do(ctx context.Context, method string, query url.Values, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.items+"?"+query.Encode(), bytes.NewReader(body))
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
