package routing

import (
	"fmt"
	"runtime/debug"
)

// Recovered makes an error of a panic, with its stack for the operators. Call it deferred in what runs in a goroutine
// of its own for many requests: nobody above it recovers, so that the panic of one adapter would end the process.
func Recovered(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s panicked: %v\n%s", what, p, debug.Stack())
	}
}
