package traffic

import (
	"context"
	"encoding/json"
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
	status, _, _, err := c.do(ctx, http.MethodPut, token, "/orders/"+id, value, nil)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("PUT answered %d", status)
	}
	return err
}

func (c *client) get(ctx context.Context, token, id string) (value string, found bool, err error) {
	status, _, value, err := c.do(ctx, http.MethodGet, token, "/orders/"+id, "", nil)
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

// create makes an order under an id of the service's, once however often it is asked with the key.
func (c *client) create(ctx context.Context, token, key, value string) (id string, err error) {
	status, header, _, err := c.do(ctx, http.MethodPost, token, "/orders", value, http.Header{"Idempotency-Key": {`"` + key + `"`}})
	switch {
	case err != nil:
		return "", err
	case status != http.StatusCreated:
		return "", fmt.Errorf("POST answered %d", status)
	}
	id, ok := strings.CutPrefix(header.Get("Location"), "/orders/")
	if !ok || id == "" {
		return "", fmt.Errorf("POST answered 201 with the location %q", header.Get("Location"))
	}
	return id, nil
}

// job asks for a job that appends the value to an order.
func (c *client) job(ctx context.Context, token, id, order, value string) error {
	status, _, _, err := c.do(ctx, http.MethodPost, token, "/jobs/"+id+"?append="+order, value, nil)
	if err == nil && status != http.StatusAccepted && status != http.StatusNoContent {
		err = fmt.Errorf("POST of a job answered %d", status)
	}
	return err
}

// list is the ids of the tenant's orders.
func (c *client) list(ctx context.Context, token string) (ids []string, err error) {
	status, _, text, err := c.do(ctx, http.MethodGet, token, "/orders", "", nil)
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK:
		return nil, fmt.Errorf("GET of the list answered %d", status)
	}
	if err := json.Unmarshal([]byte(text), &ids); err != nil {
		return nil, fmt.Errorf("the list of orders: %w", err)
	}
	return ids, nil
}

func (c *client) do(ctx context.Context, method, token, path, body string, more http.Header) (status int, header http.Header, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	for name, values := range more {
		req.Header[name] = values
	}
	// Without GetBody net/http cannot repeat the request by itself when a kept connection breaks, and
	// what a tenant feels is counted rather than hidden.
	req.GetBody = nil
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = errors.New("the answer is larger than 1 MB")
	}
	return resp.StatusCode, resp.Header, string(text), err
}
