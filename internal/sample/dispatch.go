package sample

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// dispatchLimit is for putting one job into the cell's dispatch queue.
const dispatchLimit = 5 * time.Second

// dispatchTo puts jobs into the dispatch queue of a store that takes them by POST, as that of a local cell does.
func dispatchTo(address, token string) (shardkit.Dispatch, error) {
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("CELLWALL_DISPATCH_URL is %q: want an address such as http://127.0.0.1:8080/v1/dispatch/eu-1", address)
	}
	client := &http.Client{Timeout: dispatchLimit}
	return func(ctx context.Context, j shardkit.Job) error {
		message, err := j.Encode()
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(message))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // so that the connection is kept
		if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusAccepted {
			err = fmt.Errorf("the dispatch queue answered %s", resp.Status)
		}
		return err
	}, nil
}
