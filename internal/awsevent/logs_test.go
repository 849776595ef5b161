package awsevent

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// logsEvent packs what a subscription would.
func logsEvent(t testing.TB, batch string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(batch)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(events.CloudwatchLogsEvent{AWSLogs: events.CloudwatchLogsRawData{Data: base64.StdEncoding.EncodeToString(packed.Bytes())}})
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

const batch = `{"messageType":"DATA_MESSAGE","owner":"111111111111","logGroup":"/cellwall/orders/eu-1/router","logStream":"2026/11/30/[7]abc",
	"subscriptionFilters":["verdicts"],"logEvents":[{"id":"1","timestamp":1796040000123,"message":"{\"msg\":\"poison verdict\"}"},{"id":"2","timestamp":1796040000124,"message":"b"}],"new":1}`

func TestParseLogs(t *testing.T) {
	l, err := ParseLogs(logsEvent(t, batch))
	if err != nil || l.Group != "/cellwall/orders/eu-1/router" || l.Stream != "2026/11/30/[7]abc" || len(l.Lines) != 2 ||
		l.Lines[0] != (LogLine{time.UnixMilli(1796040000123).UTC(), `{"msg":"poison verdict"}`}) {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err = ParseLogs(logsEvent(t, `{"messageType":"CONTROL_MESSAGE","logEvents":[{"message":"CWL CONTROL MESSAGE: Checking health of destination"}]}`)); err != nil || len(l.Lines) != 0 {
		t.Errorf("a control message: %+v, %v", l, err)
	}
	for _, other := range []string{`{}`, `null`, `[]`, `{"force":true}`, `{"awslogs":null}`, ``, `{"awslogs":"x"}`} {
		if l, err := ParseLogs([]byte(other)); l != nil || err != nil {
			t.Errorf("%s: %+v, %v", other, l, err)
		}
	}
	for what, payload := range map[string][]byte{
		"no base64":        []byte(`{"awslogs":{"data":"%"}}`),
		"not packed":       []byte(`{"awslogs":{"data":"aGVsbG8="}}`),
		"nothing":          []byte(`{"awslogs":{"data":""}}`),
		"no JSON":          logsEvent(t, "{"),
		"another type":     logsEvent(t, `{"messageType":"OTHER"}`),
		"a bomb":           logsEvent(t, `{"messageType":"DATA_MESSAGE","logGroup":"`+strings.Repeat("x", maxLogs)+`"}`),
		"a time that is ?": logsEvent(t, `{"messageType":"DATA_MESSAGE","logEvents":[{"timestamp":"now"}]}`),
	} {
		if l, err := ParseLogs(payload); l != nil || !errors.Is(err, ErrLogs) {
			t.Errorf("%s: %+v, %v", what, l, err)
		}
	}
}

// FuzzParseLogs: any event is lines, another's, or an error.
func FuzzParseLogs(f *testing.F) {
	f.Add(logsEvent(f, batch))
	f.Add([]byte(`{"awslogs":{"data":"aGVsbG8="}}`))
	f.Add([]byte(`{"force":true}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		l, err := ParseLogs(payload)
		if l != nil && err != nil || err != nil && !errors.Is(err, ErrLogs) {
			t.Errorf("%+v, %v", l, err)
		}
	})
}
