package jobqueue

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"cellwall.dev/cellwall/internal/localcell/loopback"
)

// maxRequest bounds the body of a request, in bytes: a message in base64 with what stands around it.
const maxRequest = 2 << 20

type (
	sendRequest struct {
		Queue string `json:"queue"`
		Message
	}
	receiptRequest struct {
		Queue   string        `json:"queue"`
		Receipt string        `json:"receipt"`
		Delay   time.Duration `json:"delay,omitempty"`
	}
	moveRequest struct {
		receiptRequest
		To      string  `json:"to"`
		Message Message `json:"message"`
	}
	queueRequest struct {
		Queue string `json:"queue"`
	}
)

// SendHandler serves POST /v1/queues/send. Who asks is the caller's to find out.
func SendHandler(q *Queues) http.Handler {
	return served(func(ctx context.Context, in sendRequest) (any, error) { return nil, q.Send(ctx, in.Queue, in.Message) })
}

// Handler serves the other requests of a Client, each by POST under /v1/queues/.
func Handler(q *Queues) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/queues/send", SendHandler(q))
	mux.Handle("POST /v1/queues/receive", served(func(ctx context.Context, in Receive) (any, error) { return q.Receive(ctx, in) }))
	mux.Handle("POST /v1/queues/delete", served(func(ctx context.Context, in receiptRequest) (any, error) {
		return nil, q.Delete(ctx, in.Queue, in.Receipt)
	}))
	mux.Handle("POST /v1/queues/delay", served(func(ctx context.Context, in receiptRequest) (any, error) {
		return nil, q.Delay(ctx, in.Queue, in.Receipt, in.Delay)
	}))
	mux.Handle("POST /v1/queues/move", served(func(ctx context.Context, in moveRequest) (any, error) {
		return nil, q.Move(ctx, in.Queue, in.Receipt, in.To, in.Message)
	}))
	mux.Handle("POST /v1/queues/stats", served(func(_ context.Context, in queueRequest) (any, error) { return q.Stats(in.Queue), nil }))
	mux.Handle("POST /v1/queues/all", served(func(context.Context, struct{}) (any, error) { return q.All(), nil }))
	return mux
}

// served turns a request into a handler of JSON.
func served[In any](do func(context.Context, In) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&in); err != nil {
			loopback.Fail(w, http.StatusBadRequest, err)
			return
		}
		out, err := do(r.Context(), in)
		switch {
		case errors.Is(err, ErrInvalid):
			loopback.Fail(w, http.StatusBadRequest, err)
		case errors.Is(err, ErrReceipt):
			loopback.Fail(w, http.StatusConflict, err)
		case err != nil:
			loopback.Fail(w, http.StatusServiceUnavailable, err)
		default:
			loopback.Answer(w, http.StatusOK, out)
		}
	})
}

// Client asks a Handler.
type Client struct{ loop *loopback.Client }

// NewClient returns a client of the queues at base, such as http://127.0.0.1:8080.
func NewClient(base, secret string) *Client { return &Client{loopback.NewClient(base, secret)} }

// Send is Queues.Send.
func (c *Client) Send(ctx context.Context, queue string, m Message) error {
	return c.do(ctx, "send", sendRequest{queue, m}, nil)
}

// Receive is Queues.Receive.
func (c *Client) Receive(ctx context.Context, r Receive) (out []Delivery, err error) {
	err = c.do(ctx, "receive", r, &out)
	return out, err
}

// Delete is Queues.Delete.
func (c *Client) Delete(ctx context.Context, queue, receipt string) error {
	return c.do(ctx, "delete", receiptRequest{queue, receipt, 0}, nil)
}

// Delay is Queues.Delay.
func (c *Client) Delay(ctx context.Context, queue, receipt string, d time.Duration) error {
	return c.do(ctx, "delay", receiptRequest{queue, receipt, d}, nil)
}

// Move is Queues.Move.
func (c *Client) Move(ctx context.Context, from, receipt, to string, m Message) error {
	return c.do(ctx, "move", moveRequest{receiptRequest{from, receipt, 0}, to, m}, nil)
}

// Stats is Queues.Stats.
func (c *Client) Stats(ctx context.Context, queue string) (s Stats, err error) {
	err = c.do(ctx, "stats", queueRequest{queue}, &s)
	return s, err
}

// All is Queues.All.
func (c *Client) All(ctx context.Context) (all map[string]Stats, err error) {
	err = c.do(ctx, "all", struct{}{}, &all)
	return all, err
}

func (c *Client) do(ctx context.Context, what string, in, out any) error {
	return c.loop.Do(ctx, http.MethodPost, "/v1/queues/"+what, in, out)
}
