// Package httpdir carries a directory's home and the shards' holdings over HTTP: HomeHandler serves a
// directory.Home and Client is one, HoldsHandler serves a directory.Holder and Holds is one. They stand
// together because they are the two ends of one wire format. Whom to let in is the caller's task.
//
// Every request is a POST with a JSON body; those that only read end in read, list, changes, held or
// holdings.
package httpdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"cellwall.dev/cellwall/internal/directory"
)

const (
	pathRead    = "/v1/directory/read"
	pathList    = "/v1/directory/list"
	pathChanges = "/v1/directory/changes"
	pathWrite   = "/v1/directory/write"

	pathHold     = "/v1/holds/hold"
	pathRelease  = "/v1/holds/release"
	pathForget   = "/v1/holds/forget"
	pathHeld     = "/v1/holds/held"
	pathHoldings = "/v1/holds/holdings"

	maxPage   = 1000    // records in one answer
	maxKeys   = 100     // in one read
	fullPage  = 4 << 20 // bytes of bodies after which a page ends early
	maxBody   = 64 << 20
	maxAnswer = 64 << 20 // a full read of the largest records, in base64
)

// What travels.
type (
	wireKey struct {
		Part string `json:"part"`
		Sort string `json:"sort"`
	}
	wireRecord struct {
		wireKey
		Version   uint64           `json:"version"`
		Operation string           `json:"operation,omitempty"`
		Body      []byte           `json:"body,omitempty"`
		Index     [2]string        `json:"index"`
		Counters  map[string]int64 `json:"counters,omitempty"`
	}
	readRequest struct {
		Consistency directory.Consistency `json:"consistency"`
		Keys        []wireKey             `json:"keys"`
	}
	listRequest struct {
		Family string          `json:"family"`
		Part   string          `json:"part,omitempty"`
		Index  directory.Index `json:"index,omitempty"`
		Value  string          `json:"value,omitempty"`
		After  wireKey         `json:"after"`
		Limit  int             `json:"limit"`
	}
	changesRequest struct {
		After directory.Cursor `json:"after"`
		Limit int              `json:"limit"`
	}
	records struct {
		Records []wireRecord     `json:"records"`
		More    bool             `json:"more,omitempty"` // the page ended early
		Next    directory.Cursor `json:"next,omitempty"`
	}
	wireOp struct {
		wireKey
		Expect uint64            `json:"expect"`
		Put    bool              `json:"put,omitempty"`
		Body   []byte            `json:"body,omitempty"`
		Index  [2]string         `json:"index"`
		Deltas []directory.Delta `json:"deltas,omitempty"`
	}
	writeRequest struct {
		Operation string   `json:"operation"`
		Ops       []wireOp `json:"ops"`
	}
	wireFailed struct {
		Op   int        `json:"op"`
		Key  wireKey    `json:"key"`
		Have wireRecord `json:"have"`
	}
	holdsRequest struct {
		Cell     string              `json:"cell"`
		Shard    string              `json:"shard"`
		Holdings []directory.Holding `json:"holdings,omitempty"` // of hold and release
		Tenant   string              `json:"tenant,omitempty"`   // of held
		After    string              `json:"after,omitempty"`    // of holdings
		Limit    int                 `json:"limit,omitempty"`
	}
	holdings struct {
		Holdings []directory.Holding `json:"holdings"`
	}
)

func toWireKey(k directory.Key) wireKey { return wireKey{k.Part, k.Sort} }

func (k wireKey) key() directory.Key { return directory.Key{Part: k.Part, Sort: k.Sort} }

func toWireRecord(r directory.Record) wireRecord {
	return wireRecord{toWireKey(r.Key), r.Version, r.Operation, r.Body, r.Index, r.Counters}
}

func (r wireRecord) record() directory.Record {
	return directory.Record{Key: r.key(), Version: r.Version, Operation: r.Operation, Body: r.Body, Index: r.Index, Counters: r.Counters}
}

func toWireRecords(list []directory.Record) []wireRecord {
	out := make([]wireRecord, len(list))
	for i, r := range list {
		out[i] = toWireRecord(r)
	}
	return out
}

func fromWireRecords(list []wireRecord) []directory.Record {
	out := make([]directory.Record, len(list))
	for i, r := range list {
		out[i] = r.record()
	}
	return out
}

// fault is the body of every answer that is no success. Code names the error.
type fault struct {
	Code   string       `json:"code,omitempty"`
	Error  string       `json:"error"`
	Failed []wireFailed `json:"failed,omitempty"` // of a conflict
}

const codeConflict = "conflict"

// The errors of homes on the wire, beside *directory.Conflict.
var codes = []struct {
	code   string
	status int
	err    error
}{
	{"invalid", http.StatusBadRequest, directory.ErrInvalid},
	{"too-large", http.StatusRequestEntityTooLarge, directory.ErrTooLarge},
	{"busy", http.StatusServiceUnavailable, directory.ErrBusy},
	{"cursor", http.StatusGone, directory.ErrCursor},
}

var (
	// errRequest is a request that the client of this package does not send.
	errRequest = errors.New("not a valid request")
	// errHidden is a request for what is not the asker's.
	errHidden = errors.New("not served to routers")
)

// answer writes a value, or the error as a fault.
func answer(w http.ResponseWriter, value any, err error) {
	status := http.StatusOK
	if err != nil {
		f := fault{Error: err.Error()}
		status = http.StatusInternalServerError
		switch {
		case errors.Is(err, errRequest):
			status = http.StatusBadRequest
		case errors.Is(err, errHidden):
			status = http.StatusForbidden
		}
		for _, c := range codes {
			if errors.Is(err, c.err) {
				f.Code, status = c.code, c.status
				break
			}
		}
		if conflict := (*directory.Conflict)(nil); errors.As(err, &conflict) {
			f.Code, status = codeConflict, http.StatusConflict
			for _, failed := range conflict.Failed {
				f.Failed = append(f.Failed, wireFailed{failed.Op, toWireKey(failed.Key), toWireRecord(failed.Have)})
			}
		}
		value = f
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Past the header an error can only be a client that has gone.
	_ = json.NewEncoder(w).Encode(value)
}

// refusal turns an answer that is no success into the error that it was.
func refusal(status int, text []byte) error {
	var f fault
	if err := json.Unmarshal(text, &f); err != nil || f.Error == "" {
		return fmt.Errorf("the directory answered %d %s", status, http.StatusText(status))
	}
	if f.Code == codeConflict {
		conflict := &directory.Conflict{}
		for _, failed := range f.Failed {
			conflict.Failed = append(conflict.Failed, directory.Failed{Op: failed.Op, Key: failed.Key.key(), Have: failed.Have.record()})
		}
		return conflict
	}
	for _, c := range codes {
		if c.code == f.Code {
			return &remote{f.Error, c.err}
		}
	}
	return fmt.Errorf("the directory answered %d: %s", status, f.Error)
}

// remote is an error as the server worded it.
type remote struct {
	text string
	is   error
}

func (e *remote) Error() string { return e.text }
func (e *remote) Unwrap() error { return e.is }
