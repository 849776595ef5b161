//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// order is one run that the load process is asked for, a line of JSON each.
type order struct {
	Address string        `json:"address"`
	Tenants int           `json:"tenants"` // the first so many send requests
	Conns   int           `json:"conns"`
	Each    bool          `json:"each,omitempty"` // every tenant once, instead of For
	For     time.Duration `json:"for,omitempty"`
	Rate    float64       `json:"rate,omitempty"` // requests a second, all connections together; 0: as soon as the last is answered
	Seed    uint64        `json:"seed"`
}

// result is what came of it.
type result struct {
	Requests int           `json:"requests"` // answered with 200 and the worker's answer
	Failed   int           `json:"failed"`
	Error    string        `json:"error,omitempty"` // the first
	Took     time.Duration `json:"took"`
	P50      time.Duration `json:"p50"`
	P99      time.Duration `json:"p99"`
	CPU      time.Duration `json:"cpu"` // that this process took
}

func (r result) perSecond() float64 { return float64(r.Requests) / r.Took.Seconds() }

// load is the load process: it reads tokens from a file, one a line, and then orders from in until that ends.
func load(tokens string, in io.Reader, out io.Writer) error {
	requests, err := readRequests(tokens)
	if err != nil {
		return err
	}
	orders, results := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		switch err := orders.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read an order: %w", err)
		}
		r, err := o.run(requests)
		if err != nil {
			return err
		}
		if err := results.Encode(r); err != nil {
			return err
		}
	}
}

// tenantName is the id of a tenant by its number.
func tenantName(n int) string { return fmt.Sprintf("t%06d", n) }

// readRequests makes each tenant's request.
func readRequests(tokens string) (all [][]byte, err error) {
	f, err := os.Open(tokens)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		all = append(all, fmt.Appendf(nil, "GET /orders/42 HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: load\r\nAccept: application/json\r\n"+
			"Authorization: Bearer %s\r\nX-Tenant: %s\r\n\r\n", lines.Bytes(), tenantName(len(all))))
	}
	return all, lines.Err()
}

// sender is one connection's share of a run.
type sender struct {
	took   []time.Duration
	failed int
	err    error
}

func (o order) run(requests [][]byte) (result, error) {
	if o.Tenants < 1 || o.Tenants > len(requests) || o.Conns < 1 {
		return result{}, fmt.Errorf("%d tenants and %d connections, with %d tokens: want at least one and at most as many as tokens", o.Tenants, o.Conns, len(requests))
	}
	clients := make([]*client, o.Conns)
	for i := range clients {
		c, err := dial(o.Address)
		if err != nil {
			return result{}, err
		}
		defer c.Close()
		clients[i] = c
	}
	before, err := cpuOf(os.Getpid())
	if err != nil {
		return result{}, err
	}
	senders := make([]sender, o.Conns)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() { senders[i].send(o, clients[i], requests, i, start) })
	}
	wg.Wait()
	r := result{Took: time.Since(start)}
	after, err := cpuOf(os.Getpid())
	if err != nil {
		return result{}, err
	}
	r.CPU = after - before
	var all []time.Duration
	for _, s := range senders {
		all = append(all, s.took...)
		r.Failed += s.failed
		if s.err != nil && r.Error == "" {
			r.Error = s.err.Error()
		}
	}
	r.Requests = len(all)
	slices.Sort(all)
	r.P50, r.P99 = quantile(all, 0.5), quantile(all, 0.99)
	return r, nil
}

// quantile is the smallest of sorted values that is not below the share q of them; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// send sends requests by one connection. With a rate they are due at random times (Poisson); what is due while the
// answer before it is awaited counts from when it was due, so that a proxy which stalls is not asked less.
func (s *sender) send(o order, c *client, requests [][]byte, i int, start time.Time) {
	random := rand.New(rand.NewPCG(o.Seed, uint64(i)))
	gap := func() time.Duration {
		return time.Duration(random.ExpFloat64() / (o.Rate / float64(o.Conns)) * float64(time.Second))
	}
	due := start
	for n := i; ; n += o.Conns {
		tenant := random.IntN(o.Tenants)
		if o.Each {
			tenant = n
		}
		asked := time.Now()
		if o.Rate > 0 {
			if due = due.Add(gap()); due.Sub(start) >= o.For {
				return
			}
			if wait := due.Sub(asked); wait > 0 {
				time.Sleep(wait)
				asked = time.Now() // this process's own lateness is not the proxy's
			} else {
				asked = due
			}
		}
		if o.Each && n >= o.Tenants || !o.Each && time.Since(start) >= o.For {
			return
		}
		if err := c.ask(requests[tenant]); err != nil {
			s.failed++
			if s.err == nil {
				s.err = err
			}
			c.Close()
			if c, err = dial(o.Address); err != nil {
				s.err = err
				return
			}
			defer c.Close()
			continue
		}
		s.took = append(s.took, time.Since(asked))
	}
}

// client is one connection to a proxy.
type client struct {
	net.Conn
	buf []byte
}

func dial(address string) (*client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &client{conn, make([]byte, 64<<10)}, nil
}

var (
	wantStatus   = []byte("HTTP/1.1 200 ")
	lengthHeader = []byte("\r\ncontent-length:")
	wantBody     = answer[bytes.Index(answer, headEnd)+len(headEnd):]
)

// ask sends a request and reads the answer, which must be the worker's.
func (c *client) ask(request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	n, want := 0, -1
	for want < 0 || n < want {
		if n == len(c.buf) {
			return errors.New("the answer is longer than the worker's")
		}
		got, err := c.Read(c.buf[n:])
		if err != nil {
			return fmt.Errorf("an answer broke off: %w", err)
		}
		n += got
		if want < 0 {
			if want, err = wholeLength(c.buf[:n]); err != nil {
				return err
			}
		}
	}
	if !bytes.HasPrefix(c.buf[:n], wantStatus) || !bytes.HasSuffix(c.buf[:n], wantBody) {
		return fmt.Errorf("answered with %q", firstLine(c.buf[:n]))
	}
	return nil
}

// wholeLength is how long an answer is with head and body, -1 while its head is not all there.
func wholeLength(b []byte) (int, error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return -1, nil
	}
	head := bytes.ToLower(b[:end+2])
	at := bytes.Index(head, lengthHeader)
	if at < 0 {
		return -1, fmt.Errorf("an answer without a length: %q", firstLine(b))
	}
	value, _, _ := bytes.Cut(head[at+len(lengthHeader):], []byte("\r\n"))
	length, err := strconv.Atoi(string(bytes.TrimSpace(value)))
	if err != nil || length < 0 {
		return -1, fmt.Errorf("the length %q is no number", value)
	}
	return end + len(headEnd) + length, nil
}

func firstLine(b []byte) []byte {
	line, _, _ := bytes.Cut(b, []byte("\r\n"))
	return line
}
