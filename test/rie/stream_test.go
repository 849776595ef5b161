//go:build linux

package rie

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
	"cellwall.dev/cellwall/internal/handler/handlertest"
	"cellwall.dev/cellwall/internal/routing"
)

// invokeStreaming is Lambda's InvokeWithResponseStream, as far as the emulator goes: it hands an answer over at once
// and whole, and drops the trailer by which aws-lambda-go says that one broke off.
func (a *aws) invokeStreaming(w http.ResponseWriter, r *http.Request, name string, event []byte) {
	answer := httptest.NewRecorder()
	a.invoke(answer, r, name, event)
	if answer.Code != http.StatusOK {
		refuse(w, answer.Code, answer.Header().Get("X-Amzn-ErrorType"))
		return
	}
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	send := func(kind, contentType string, payload []byte) {
		var m eventstream.Message
		m.Headers.Set(":message-type", eventstream.StringValue("event"))
		m.Headers.Set(":event-type", eventstream.StringValue(kind))
		m.Headers.Set(":content-type", eventstream.StringValue(contentType))
		m.Payload = payload
		if err := eventstream.NewEncoder().Encode(w, m); err != nil {
			a.t.Error(err)
		}
	}
	complete := map[string]string{}
	if answer.Header().Get("X-Amz-Function-Error") != "" {
		complete = map[string]string{"ErrorCode": "Unhandled", "ErrorDetails": answer.Body.String()}
	} else {
		for chunk := range bytes.SplitAfterSeq(answer.Body.Bytes(), []byte("x")) {
			send("PayloadChunk", "application/octet-stream", chunk)
		}
	}
	text, err := json.Marshal(complete)
	if err != nil {
		a.t.Error(err)
	}
	send("InvokeComplete", "application/json", text)
}

// TestStreaming: a router behind a streaming Function URL answers with streams, what its slices stream and what they
// answer whole; by any other sender it answers as ever.
func TestStreaming(t *testing.T) {
	c := newTestCell(t)
	variables := routerVariables()
	variables["CELLWALL_STREAM"] = "1"
	router := start(t, "router", c.environment(variables))
	large := strings.Repeat("0123456789 ", 10_000)
	ask := func(send func(awseventtest.Client) []byte, method, path, body string) []byte {
		t.Helper()
		status, answer, err := router.invoke(t.Context(), send(awseventtest.Client{
			Method: method, Path: path, Body: []byte(body), Claims: acme,
			Header: [][2]string{{"Authorization", handlertest.Bearer(acme)}, {"Content-Type", "text/plain"}, {"Cellwall-Stream", "forged"}},
		}))
		if err != nil || status != http.StatusOK {
			t.Fatalf("%d %s, %v\n%s", status, answer, err, router.output)
		}
		return answer
	}
	streamed := func(answer []byte, want int) string {
		t.Helper()
		resp, err := awsevent.ReadAnswer(io.NopCloser(bytes.NewReader(answer)))
		if err != nil || resp.Stream == nil {
			t.Fatalf("no stream: %.200q, %v", answer, err)
		}
		body, err := io.ReadAll(resp.Stream)
		if err != nil || resp.Status != want {
			t.Fatalf("answered %d %.200s, %v, want %d\n%s", resp.Status, body, err, want, router.output)
		}
		return string(body)
	}
	streamed(ask(awseventtest.FunctionURL, "PUT", "/orders/large", large), http.StatusNoContent)
	if got := streamed(ask(awseventtest.FunctionURL, "GET", "/orders/large", ""), http.StatusOK); got != large {
		t.Errorf("%d bytes come back of %d", len(got), len(large))
	}
	if got := streamed(ask(awseventtest.FunctionURL, "GET", "/orders/none", ""), http.StatusNotFound); strings.Contains(got, "s01") {
		t.Errorf("answered %s", got)
	}
	for _, sender := range awseventtest.Senders() {
		if sender.Name == "Function URL" || strings.Contains(sender.Name, "ALB") { // a load balancer verifies no token
			continue
		}
		got, err := sender.Answer("GET", ask(sender.Event, "GET", "/orders/large", ""))
		if err != nil || got.Status != http.StatusOK || string(got.Body) != large {
			t.Errorf("%s: %d with %d bytes, %v", sender.Name, got.Status, len(got.Body), err)
		}
	}
	got, err := awseventtest.AnswerALB("GET", ask(awseventtest.ALB, "GET", "/orders/large", ""))
	if err != nil || got.Status != http.StatusUnauthorized || got.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("by a load balancer without claims: %+v, %v", got, err)
	}
	// A slice that crashes gave no answer: the request may have been executed, and was sent once.
	c.takeInvoked()
	if got := streamed(ask(awseventtest.FunctionURL, "POST", "/poison", ""), http.StatusBadGateway); !strings.Contains(got, routing.TypeMaybeDone) {
		t.Errorf("answered %s", got)
	}
	if invoked := c.takeInvoked(); len(invoked) != 1 {
		t.Errorf("sent to %v", invoked)
	}
}
