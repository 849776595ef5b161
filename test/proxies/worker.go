//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
)

// answer is what the worker says to every request: 1 KiB of JSON.
var answer = func() []byte {
	const size = 1024
	body := append([]byte(`{"order":"42","note":"`), bytes.Repeat([]byte("x"), size)...)
	body = append(body[:size-2], `"}`...)
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", size, body)
}()

// maxHead bounds a request's head, in bytes.
const maxHead = 64 << 10

// work is the worker process: it answers what comes by any of the listeners that it inherited, a shard each. It
// takes a request for ended at the empty line and says the same to each, which costs it two calls of the kernel.
func work(listeners int) error {
	errs := make(chan error, listeners)
	for i := range listeners {
		l, err := inherited(i)
		if err != nil {
			return err
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					errs <- err
					return
				}
				go serveRaw(conn)
			}
		}()
	}
	return <-errs
}

// serveRaw answers one request after the other until the proxy goes.
func serveRaw(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, 0, 4<<10)
	for {
		end := bytes.Index(buf, headEnd)
		for end < 0 {
			if len(buf) == cap(buf) {
				if len(buf) >= maxHead {
					return
				}
				buf = append(make([]byte, 0, 2*cap(buf)), buf...)
			}
			n, err := conn.Read(buf[len(buf):cap(buf)])
			if err != nil {
				return
			}
			buf = buf[:len(buf)+n]
			end = bytes.Index(buf, headEnd)
		}
		buf = buf[:copy(buf, buf[end+len(headEnd):])]
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

var headEnd = []byte("\r\n\r\n")

// firstInherited is the number of the first listener that a process inherits.
const firstInherited = 3

func inherited(i int) (net.Listener, error) {
	f := os.NewFile(uintptr(firstInherited+i), "listener")
	defer f.Close() // FileListener has a copy
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("listener %d, which whoever starts this process hands on: %w", i, err)
	}
	return l, nil
}
