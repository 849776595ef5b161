package awsevent

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Logs is what a subscription of CloudWatch Logs sends ("Log group-level subscription filters", Amazon CloudWatch
// Logs user guide): lines of one log stream, which for a function's logs is one environment.
type Logs struct {
	Group, Stream string
	Lines         []LogLine // none of a message by which the service tries the way
}

// LogLine is one of them.
type LogLine struct {
	At   time.Time // as the service has it
	Text string
}

// ErrLogs means that an event says that it has lines of a log, and has none that can be read.
var ErrLogs = errors.New("a malformed event of CloudWatch Logs")

// maxLogs is how large the lines of one event may be, unpacked. A batch of CloudWatch Logs is 1 MiB.
const maxLogs = 16 << 20

// ParseLogs reads such an event. It returns nil, and no error, for another one.
func ParseLogs(payload []byte) (*Logs, error) {
	var event struct {
		AWSLogs *struct {
			Data string `json:"data"`
		} `json:"awslogs"`
	}
	if err := json.Unmarshal(payload, &event); err != nil || event.AWSLogs == nil {
		return nil, nil // whoever else the event is for says what is wrong with it
	}
	no := func(what string, err error) (*Logs, error) { return nil, fmt.Errorf("%w: %s: %w", ErrLogs, what, err) }
	packed, err := base64.StdEncoding.DecodeString(event.AWSLogs.Data)
	if err != nil {
		return no("its data", err)
	}
	unpacker, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return no("its data", err)
	}
	unpacker.Multistream(false)
	text, err := io.ReadAll(io.LimitReader(unpacker, maxLogs+1))
	if err == nil && len(text) > maxLogs {
		err = fmt.Errorf("more than %d bytes", maxLogs)
	}
	if err != nil {
		return no("its data unpacked", err)
	}
	var batch struct {
		MessageType string `json:"messageType"`
		LogGroup    string `json:"logGroup"`
		LogStream   string `json:"logStream"`
		LogEvents   []struct {
			Timestamp int64  `json:"timestamp"`
			Message   string `json:"message"`
		} `json:"logEvents"`
	}
	if err := json.Unmarshal(text, &batch); err != nil {
		return no("its batch", err)
	}
	switch batch.MessageType {
	case "CONTROL_MESSAGE":
		return &Logs{Group: batch.LogGroup, Stream: batch.LogStream}, nil
	case "DATA_MESSAGE":
	default:
		return no("its batch", fmt.Errorf("message type %q", batch.MessageType))
	}
	l := &Logs{Group: batch.LogGroup, Stream: batch.LogStream}
	for _, e := range batch.LogEvents {
		l.Lines = append(l.Lines, LogLine{time.UnixMilli(e.Timestamp).UTC(), e.Message})
	}
	return l, nil
}
