package localcell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/localcell/issuer"
	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/localcell/proc"
)

const (
	maxControlBody = 4 << 20 // bytes
	maxTokens      = 10000   // in one request
)

// What travels between the operator's commands and the supervisor.
type (
	breakRequest struct {
		Shard string        `json:"shard"`
		For   time.Duration `json:"for"` // nanoseconds
	}
	// Broken is a shard that was just broken.
	Broken struct {
		Shard string    `json:"shard"`
		PID   int       `json:"pid"` // of the process that was killed; 0 when none was running
		Until time.Time `json:"until"`
	}
	restoreRequest struct {
		Shard string `json:"shard"`
	}
	tokensRequest struct {
		Tenants []string `json:"tenants"`
	}
	tokensAnswer struct {
		Tokens []string `json:"tokens"` // in the order of the tenants
	}
)

var errNoShard = errors.New("no such shard")

// control is the operator's way to the supervisor.
func (s *supervisor) control(i *issuer.Issuer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		loopback.Answer(w, http.StatusOK, s.status())
	})
	s.controlFaults(mux)
	s.controlVersions(mux)
	mux.HandleFunc("POST /v1/break", answer(func(ctx context.Context, in breakRequest) (Broken, error) {
		c, err := s.shard(in.Shard)
		if err != nil {
			return Broken{}, err
		}
		if in.For <= 0 || in.For > maxHold {
			return Broken{}, fmt.Errorf("a shard is broken for up to %v, not %v", maxHold, in.For)
		}
		s.log.Info("break", "shard", in.Shard, "for", in.For)
		victim, err := c.hold(ctx, in.For)
		return Broken{in.Shard, victim.PID, time.Now().Add(in.For).UTC()}, err
	}))
	mux.HandleFunc("POST /v1/restore", answer(func(_ context.Context, in restoreRequest) (ProcessStatus, error) {
		c, err := s.shard(in.Shard)
		if err != nil {
			return ProcessStatus{}, err
		}
		c.release()
		return c.status(), nil
	}))
	mux.HandleFunc("POST /v1/tokens", answer(func(_ context.Context, in tokensRequest) (tokensAnswer, error) {
		if len(in.Tenants) > maxTokens {
			return tokensAnswer{}, fmt.Errorf("%d tokens at once: want at most %d", len(in.Tenants), maxTokens)
		}
		now := time.Now()
		out := tokensAnswer{Tokens: make([]string, len(in.Tenants))}
		for n, tenant := range in.Tenants {
			var err error
			if out.Tokens[n], err = i.Token(tenant, now); err != nil {
				return tokensAnswer{}, err
			}
		}
		return out, nil
	}))
	mux.HandleFunc("POST /v1/stop", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		s.log.Info("stopped by the operator")
		s.stop(nil)
	})
	return loopback.Only(loopback.Require(mux, s.running.Secret))
}

func (s *supervisor) shard(name string) (*child, error) {
	if d := s.door(name); d != nil {
		return d.child, nil
	}
	var names []string
	for _, d := range s.doors {
		names = append(names, d.name)
	}
	return nil, fmt.Errorf("%w %q in this cell: want one of %s", errNoShard, name, strings.Join(names, ", "))
}

// answer turns a function into a handler of JSON.
func answer[In, Out any](f func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody)).Decode(&in); err != nil {
			loopback.Fail(w, http.StatusBadRequest, err)
			return
		}
		out, err := f(r.Context(), in)
		switch {
		case errors.Is(err, errNoShard), errors.Is(err, errNoProcess), errors.Is(err, ErrNoVersion):
			loopback.Fail(w, http.StatusNotFound, err)
		case errors.Is(err, errFenced), errors.Is(err, errDeploying):
			loopback.Fail(w, http.StatusConflict, err)
		case err != nil:
			loopback.Fail(w, http.StatusBadRequest, err)
		default:
			loopback.Answer(w, http.StatusOK, out)
		}
	}
}

// Status asks the supervisor how its processes are.
func (r *Running) Status(ctx context.Context) ([]ProcessStatus, error) {
	var all []ProcessStatus
	err := r.control().Do(ctx, http.MethodGet, "/v1/status", nil, &all)
	return all, err
}

// Break kills the shard's process and keeps it down for d, at most ten minutes. It returns when the
// process has ended.
func (r *Running) Break(ctx context.Context, shard string, d time.Duration) (Broken, error) {
	var b Broken
	err := r.control().Do(ctx, http.MethodPost, "/v1/break", breakRequest{shard, d}, &b)
	return b, err
}

// Restore lets a broken shard come back at once.
func (r *Running) Restore(ctx context.Context, shard string) error {
	return r.control().Do(ctx, http.MethodPost, "/v1/restore", restoreRequest{shard}, nil)
}

// Tokens returns a token for each tenant, in their order. It does not ask whether they exist.
func (r *Running) Tokens(ctx context.Context, tenants ...string) ([]string, error) {
	var all []string
	for chunk := range slices.Chunk(tenants, maxTokens) {
		var out tokensAnswer
		if err := r.control().Do(ctx, http.MethodPost, "/v1/tokens", tokensRequest{chunk}, &out); err != nil {
			return nil, err
		}
		if len(out.Tokens) != len(chunk) {
			return nil, fmt.Errorf("the issuer gave %d tokens for %d tenants", len(out.Tokens), len(chunk))
		}
		all = append(all, out.Tokens...)
	}
	return all, nil
}

// processes are all of the cell that were written down, the supervisor first.
func (r *Running) processes() []proc.Process {
	all := []proc.Process{r.Supervisor, r.Guard}
	for _, p := range r.Processes {
		all = append(all, proc.Process{PID: p.PID, Start: p.Start})
	}
	return all
}

// Refused says whether the supervisor refused a request for what was asked, so that asking again is of no
// use.
func Refused(err error) bool {
	status, ok := errors.AsType[*loopback.StatusError](err)
	return ok && (status.Status == http.StatusBadRequest || status.Status == http.StatusNotFound)
}
