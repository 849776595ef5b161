package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/quarantine"
)

// statusReport is the JSON form of local status. It holds no secrets.
type statusReport struct {
	Cell      string                    `json:"cell"`
	Cells     []string                  `json:"cells"`
	FrontDoor string                    `json:"frontDoor,omitempty"`
	Started   time.Time                 `json:"started"`
	Router    string                    `json:"router"`
	Issuer    string                    `json:"issuer"`
	PID       int                       `json:"supervisorPid"`
	Processes []localcell.ProcessStatus `json:"processes"`
	Counters  *localcell.Counters       `json:"counters"` // null while the router is down
	Queues    map[string]jobqueue.Stats `json:"queues"`   // those that have jobs; null while the store is down
	// Quarantine is who takes shards down: those whom all routers hold, and those in quarantine; null while the
	// directory is down.
	Quarantine []quarantine.Standing `json:"quarantine"`
}

func localStatus(l *local) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the running cell, its processes and what each shard was asked",
		Long: `Show the running cell, its processes and what each shard was asked since the router started. Exit status 3
when no cell is running.`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, r, err := l.find()
			if err != nil {
				return err
			}
			processes, err := r.Status(cmd.Context())
			if err != nil {
				return err
			}
			s := statusReport{r.Cell, r.Names(), r.FrontDoor, r.Started, r.Router, r.Issuer, r.Supervisor.PID, processes, nil, nil, nil}
			if counters, err := r.Counters(cmd.Context()); err == nil {
				s.Counters = &counters
			} else {
				fmt.Fprintln(l.err, "the router does not tell its counters:", err)
			}
			if s.Queues, err = r.Queues(cmd.Context()); err != nil {
				fmt.Fprintln(l.err, "the store does not tell of its queues:", err)
			}
			if s.Quarantine, err = r.Quarantine(cmd.Context()); err != nil {
				fmt.Fprintln(l.err, "nobody tells who is in quarantine:", err)
			}
			if asJSON {
				return l.json(s)
			}
			return l.printStatus(s)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (l *local) printStatus(s statusReport) error {
	w := tabwriter.NewWriter(l.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s, up since %s\n", cellNames(s.Cells), s.Started.Local().Format(time.DateTime))
	entrance := "router "
	if s.FrontDoor != "" {
		entrance = "door   "
	}
	fmt.Fprintf(w, "%s %s\nissuer  %s\n", entrance, s.Router, s.Issuer)
	if c := s.Counters; c != nil {
		fmt.Fprintf(w, "%d requests: %d refused, %d failed, %d needed a second shard\n", c.Requests, c.Refused, c.Failures, c.Fallbacks)
	}
	if c := s.Counters; c != nil {
		if c.SnapshotAge != nil {
			fmt.Fprintf(w, "snapshot %.0f s old\n", *c.SnapshotAge)
		}
		for _, tenant := range slices.Sorted(maps.Keys(c.Suspects)) {
			fmt.Fprintf(w, "tenant %q takes down who serves it, as the router found %s\n", tenant, count(int(c.Suspects[tenant]), "time"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
		q := s.Queues[name]
		fmt.Fprintf(w, "queue %s: %d waiting, %d under way, %d dead letters\n", name, q.Waiting, q.Served, q.Dead)
	}
	for _, t := range s.Quarantine {
		switch {
		case len(t.Shards) > 0:
			fmt.Fprintf(w, "quarantine: tenant %q is pinned to %s since %s\n", t.Tenant, strings.Join(t.Shards, " "), t.Since.Local().Format(time.DateTime))
		case t.Why != "":
			fmt.Fprintf(w, "quarantine: tenant %q is held until %s, and left where it is: %s\n", t.Tenant, t.Until.Local().Format(time.TimeOnly), t.Why)
		default:
			fmt.Fprintf(w, "quarantine: tenant %q is held until %s\n", t.Tenant, t.Until.Local().Format(time.TimeOnly))
		}
	}
	fmt.Fprintln(w, "\nprocess\tstate\tpid\tstarts\taddress\tversion\tasked\tfailed\tnote")
	for _, p := range s.Processes {
		asked, failed := "", ""
		if s.Counters != nil {
			if shard, ok := s.Counters.Shards[p.Name]; ok {
				asked, failed = fmt.Sprint(shard.Attempts), fmt.Sprint(shard.Failures)
			}
		}
		note := p.LastError
		if p.Deployment != "" {
			note = "deployment failed: " + p.Deployment
		}
		if p.Fault != nil {
			note = "fails by " + p.Fault.String()
		}
		if len(p.Poisoned) > 0 {
			note = fmt.Sprintf("poisonous: %q", p.Poisoned)
		}
		if p.HeldUntil != nil {
			note = "broken until " + p.HeldUntil.Local().Format(time.TimeOnly)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.State, p.PID, p.Starts, p.Address, shortVersion(p.Version), asked, failed, note)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// shortVersion is as much of a worker's digest as tells it from others.
func shortVersion(digest string) string {
	return digest[:min(len(digest), len("sha256:")+12)]
}
