package handler

import (
	"context"
	"log/slog"

	"cellwall.dev/cellwall/internal/routing"
)

// LogOutcome returns an observer that writes one line for each request that did not go as it should:
// one that a shard failed, that the router refused, or for which a part of the directory did not answer.
// Those that a shard answered at once leave no line.
func LogOutcome(log *slog.Logger) func(routing.Outcome) {
	return func(o routing.Outcome) {
		looked := o.ReplicaErr == nil && o.HomeErr == nil
		if o.Err == nil && looked && len(o.Attempts) == 1 && o.Attempts[0].Err == nil && o.Status < 500 {
			return
		}
		attempts := make([]any, len(o.Attempts))
		for i, a := range o.Attempts {
			attempt := map[string]any{"shard": a.Shard, "status": a.Status, "ms": a.Took.Milliseconds()}
			if a.Err != nil {
				attempt["err"] = a.Err.Error()
			}
			attempts[i] = attempt
		}
		level := slog.LevelInfo
		if o.Status >= 500 {
			level = slog.LevelError
		}
		line := []any{"tenant", o.Tenant, "status", o.Status, "attempts", attempts}
		if o.Err != nil {
			line = append(line, "err", o.Err.Error())
		}
		if o.Stale {
			line = append(line, "mayBeStale", true)
		}
		if o.ReplicaErr != nil {
			line = append(line, "replicaErr", o.ReplicaErr.Error())
		}
		if o.HomeErr != nil {
			line = append(line, "homeErr", o.HomeErr.Error())
		}
		log.Log(context.Background(), level, "request", line...)
	}
}
