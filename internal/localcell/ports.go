package localcell

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Workers listen on ports below those that Linux (from 32768) and macOS (from 49152) give to outgoing
// connections. Otherwise such a connection might take the port of a worker that is down, or, connecting
// to that very port from itself, talk to nobody but itself.
const (
	lowestPort  = 20000
	highestPort = 29999
)

// freePort returns a port of 127.0.0.1 that nobody listens on at the moment and that taken does not have.
func freePort(taken map[int]bool) (int, error) {
	const all = highestPort - lowestPort + 1
	first := rand.IntN(all) // cells that start together look in different places
	for i := range all {
		port := lowestPort + (first+i)%all
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("look for a free port: %w", err)
		}
		return port, nil
	}
	return 0, errors.New("no port between 20000 and 29999 is free on 127.0.0.1")
}
