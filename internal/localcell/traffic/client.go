package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 1 << 20

// client is the tenants' program. It repeats nothing: what the cell does not mend is felt.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string, concurrency int) *client {
	return &client{url, &http.Client{
		Timeout: requestLimit,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: concurrency, MaxConnsPerHost: concurrency,
		},
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) put(ctx context.Context, token, id, value string) error {
	status, _, err := c.do(ctx, http.MethodPut, token, id, value)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("PUT answered %d", status)
	}
	return err
}

func (c *client) get(ctx context.Context, token, id string) (value string, found bool, err error) {
	status, value, err := c.do(ctx, http.MethodGet, token, id, "")
	switch {
	case err != nil:
		return "", false, err
	case status == http.StatusNotFound:
		return "", false, nil
	case status != http.StatusOK:
		return "", false, fmt.Errorf("GET answered %d", status)
	}
	return value, true, nil
}

func (c *client) do(ctx context.Context, method, token, id, body string) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+"/orders/"+id, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	// Without GetBody net/http cannot repeat the request by itself when a kept connection breaks, and
	// what a tenant feels is counted rather than hidden.
	req.GetBody = nil
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = errors.New("the answer is larger than 1 MB")
	}
	return resp.StatusCode, string(text), err
}
