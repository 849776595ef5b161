package httpdir

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/directory"
)

// maxAnswer bounds what the client reads of one answer: a full page of the largest entries.
const maxAnswer = 64 << 20

// Client is a directory.Store that asks a Handler. It does not repeat requests.
type Client struct {
	base  string
	token string
	http  *http.Client
}

var _ directory.Store = (*Client)(nil)

// NewClient returns a client of the handler at base, an http or https URL without a path. It sends token
// as bearer token. client is http.DefaultClient when nil.
func NewClient(base, token string, client *http.Client) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("the directory's address: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("the directory's address %q: want http://host:port", u.Redacted())
	}
	if client == nil {
		client = http.DefaultClient
	}
	return &Client{u.Scheme + "://" + u.Host, token, client}, nil
}

// Get implements directory.Store.
func (c *Client) Get(ctx context.Context, tenant string) (e directory.Entry, err error) {
	err = c.do(ctx, http.MethodGet, pathEntry, url.Values{"tenant": {tenant}}, nil, &e)
	return e, err
}

// Create implements directory.Store.
func (c *Client) Create(ctx context.Context, e directory.Entry) (directory.Entry, error) {
	return c.write(ctx, pathCreate, nil, e)
}

// CompareAndSet implements directory.Store.
func (c *Client) CompareAndSet(ctx context.Context, expect uint64, e directory.Entry) (directory.Entry, error) {
	return c.write(ctx, pathReplace, url.Values{"expect": {strconv.FormatUint(expect, 10)}}, e)
}

// List implements directory.Store. It may ask several times.
func (c *Client) List(ctx context.Context, after string, limit int) ([]directory.Entry, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list the directory: limit %d: want at least 1", limit)
	}
	all := []directory.Entry{}
	for {
		size := min(limit-len(all), maxPage)
		var page []directory.Entry
		query := url.Values{"after": {after}, "limit": {strconv.Itoa(size)}}
		if err := c.do(ctx, http.MethodGet, pathList, query, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < size || len(all) >= limit {
			return all, nil
		}
		after = page[len(page)-1].Tenant
	}
}

// write checks the entry before it is sent, since JSON would mend a tenant id that is no UTF-8.
func (c *Client) write(ctx context.Context, path string, query url.Values, e directory.Entry) (after directory.Entry, err error) {
	if err := directory.Check(e); err != nil {
		return directory.Entry{}, err
	}
	err = c.do(ctx, http.MethodPost, path, query, e, &after)
	return after, err
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("ask the directory: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path+"?"+query.Encode(), body)
	if err != nil {
		return fmt.Errorf("ask the directory: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask the directory: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the directory's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read the directory's answer: %w", err)
	}
	return nil
}

// refusal turns an answer that is no success into the directory's own error where it is one.
func refusal(status int, text []byte) error {
	var f fault
	if err := json.Unmarshal(text, &f); err != nil || f.Error == "" {
		return fmt.Errorf("the directory answered %d %s", status, http.StatusText(status))
	}
	for _, c := range codes {
		if c.code == f.Code {
			return &remote{f.Error, c.err}
		}
	}
	return fmt.Errorf("the directory answered %d: %s", status, f.Error)
}

// remote is an error as the server worded it, which is one of the directory's errors.
type remote struct {
	text string
	is   error
}

func (e *remote) Error() string { return e.text }
func (e *remote) Unwrap() error { return e.is }
