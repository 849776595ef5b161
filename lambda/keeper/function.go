package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/keeper"
	"cellwall.dev/cellwall/internal/quarantine"
	"cellwall.dev/cellwall/internal/snapshot"
	"cellwall.dev/cellwall/internal/telemetry"
)

// quarantineTimeout is for what a scheduled run does about suspects: the snapshot needs the rest.
const quarantineTimeout = 30 * time.Second

// function is a cell's keeper function, whatever invokes it.
type function struct {
	writer
	service, cell string
	quarantine    *quarantine.Quarantine
	routerLogs    string // log group of the cell's router
	hashed        bool   // whose lines have tenants' hashes
}

// writer writes snapshots. By itself it is a front door's keeper function.
type writer struct {
	snapshots snapshots
	log       *slog.Logger
	lines     *telemetry.Requests
}

// snapshots writes and reads the cell's; *keeper.Keeper does.
type snapshots interface {
	Write(ctx context.Context, o keeper.Options) (keeper.Outcome, error)
	Last(ctx context.Context) (*snapshot.Snapshot, error)
	Measure(ctx context.Context, o keeper.Outcome) (keeper.Measures, error)
}

// invoke takes an event of the schedule, of an operator, or of the router's log.
func (f *function) invoke(ctx context.Context, payload json.RawMessage) error {
	logs, err := awsevent.ParseLogs(payload)
	if err != nil {
		f.log.Error("an event of a log is of no use", "err", err.Error())
		return err
	}
	if logs != nil {
		return f.hear(ctx, logs)
	}
	force, err := parseRun(payload)
	if err != nil {
		return err
	}
	return errors.Join(f.settle(ctx), f.write(ctx, force))
}

// invoke takes an event of the schedule, or of an operator.
func (w writer) invoke(ctx context.Context, payload json.RawMessage) error {
	force, err := parseRun(payload)
	if err != nil {
		return err
	}
	return w.write(ctx, force)
}

// parseRun reads the event of a run.
func parseRun(payload json.RawMessage) (force bool, err error) {
	var event struct {
		Force bool `json:"force"`
	}
	if err := json.Unmarshal(payload, &event); err != nil {
		return false, fmt.Errorf(`the event is neither {"force": true}, nor the schedule's, nor a log's: %w`, err)
	}
	return event.Force, nil
}

// write is one snapshot. Whatever comes of that, metrics tell how old what stands is; when they cannot, the alarms on
// them say so.
func (w writer) write(ctx context.Context, force bool) error {
	out, err := w.run(ctx, force)
	measures, unknown := w.snapshots.Measure(ctx, out)
	if unknown != nil {
		w.log.Warn("not everything is measured", "err", unknown.Error())
	}
	w.lines.Measures(telemetry.Measures(measures))
	return err
}

func (w writer) run(ctx context.Context, force bool) (keeper.Outcome, error) {
	out, err := w.snapshots.Write(ctx, keeper.Options{Force: force})
	if err != nil {
		w.log.Error("no snapshot was written", "err", err.Error())
		return out, err
	}
	w.log.Info("snapshot", "snapshot", out, "force", force)
	return out, out.Err()
}

// settle does what is to be done about suspects. Whatever comes of that, a snapshot is written.
func (f *function) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quarantineTimeout)
	defer cancel()
	return f.tell(f.quarantine.Run(ctx))
}

// hear takes the verdicts of one environment of the router.
func (f *function) hear(ctx context.Context, logs *awsevent.Logs) error {
	if len(logs.Lines) > 0 && logs.Group != f.routerLogs {
		return fmt.Errorf("lines of the log group %q came, and the keeper hears %q alone", logs.Group, f.routerLogs)
	}
	var verdicts []quarantine.Verdict
	for _, l := range logs.Lines {
		v, err := quarantine.ParseLine([]byte(l.Text), f.service, f.cell)
		if err != nil {
			f.log.Warn("a line of the router's log is left out", "stream", logs.Stream, "err", err.Error())
			continue
		}
		v.Environment = logs.Stream
		verdicts = append(verdicts, v)
	}
	if f.hashed && len(verdicts) > 0 {
		var err error
		if verdicts, err = f.named(ctx, verdicts); err != nil {
			f.log.Error("nobody knows on whom the verdicts are", "err", err.Error())
			return err
		}
	}
	if len(verdicts) == 0 {
		return nil
	}
	return f.tell(f.quarantine.Take(ctx, verdicts))
}

// named gives verdicts on hashes their tenants, as the cell's snapshot has them. Others are left out: a tenant that
// came since the last snapshot is found by the next verdict.
func (f *function) named(ctx context.Context, verdicts []quarantine.Verdict) ([]quarantine.Verdict, error) {
	last, err := f.snapshots.Last(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the cell's snapshot, which has its tenants: %w", err)
	}
	wanted := map[string]string{}
	for _, v := range verdicts {
		wanted[v.Tenant] = ""
	}
	if last != nil {
		for e := range last.Entries.All() {
			hash := telemetry.Hash(e.Tenant)
			if _, asked := wanted[hash]; asked {
				wanted[hash] = e.Tenant
			}
		}
	}
	for i := range verdicts {
		id := wanted[verdicts[i].Tenant]
		if id == "" {
			f.log.Warn("a verdict is left out: no tenant of the cell has this hash", "tenant", verdicts[i].Tenant)
		}
		verdicts[i].Tenant = id
	}
	return slices.DeleteFunc(verdicts, func(v quarantine.Verdict) bool { return v.Tenant == "" }), nil
}

// tell writes what was done about suspects, and logs what could not be.
func (f *function) tell(o quarantine.Outcome, err error) error {
	f.lines.Quarantine(o)
	if err != nil {
		f.log.Error("suspects are not looked after", "err", err.Error())
	}
	return err
}
