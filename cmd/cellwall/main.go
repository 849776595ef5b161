// Command cellwall stamps, audits, routes and runs cells of shards.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"cellwall.dev/cellwall/internal/cli"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // by nohup: the terminal may go
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		s := <-signals
		signal.Stop(signals) // a second one ends the process, whatever it is about
		number, _ := s.(syscall.Signal)
		cancel(cli.Interrupted(number))
	}()
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
