package loopback

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxAnswer bounds what Client reads of one answer, in bytes.
const maxAnswer = 64 << 20

// Client asks one server behind Require.
type Client struct {
	base   string
	secret string
	http   *http.Client
}

// NewClient returns a client of the server at base, "http://127.0.0.1:port".
func NewClient(base, secret string) *Client {
	// No proxy: these requests stay on this machine and carry a secret.
	transport := &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute}
	return &Client{base, secret, &http.Client{Transport: transport}}
}

// CloseIdle closes the connections that are kept alive.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Do sends in as JSON, unless it is nil, and decodes the answer into out, unless that is nil. An answer
// that is no success is an error with the server's own words.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.secret)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		var f fault
		if json.Unmarshal(text, &f) == nil && f.Error != "" {
			return &StatusError{resp.StatusCode, f.Error}
		}
		return &StatusError{resp.StatusCode, http.StatusText(resp.StatusCode)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}

// StatusError is an answer that is no success.
type StatusError struct {
	Status int
	Text   string
}

func (e *StatusError) Error() string { return e.Text }
