package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
)

// event is one thing that was done by hand or by a command.
type event struct {
	At        time.Time        `json:"at"`
	By        string           `json:"by"`
	Why       string           `json:"why,omitempty"`
	What      string           `json:"what"`
	Tenant    string           `json:"tenant,omitempty"`
	Cell      string           `json:"cell,omitempty"` // of a change of the cell itself
	Epoch     uint64           `json:"epoch,omitempty"`
	Operation string           `json:"operation"`
	Before    *directory.Entry `json:"before,omitempty"`
	After     *directory.Entry `json:"after,omitempty"`
}

func tenantHistory(f *directoryFlags) *cobra.Command {
	var operator string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history [TENANT | --operator NAME]",
		Short: "Print what was done to a tenant, or by an operator: who, when, why, what",
		Long: `Print what was done to a tenant: its changes, and who looked at it by hand. With --operator, print instead
what that person changed and looked at, cells included; it may miss the last moments. That you asked is
kept in the same record. With --json each line is an object, with the entry before and after the change (before only in a tenant's history).`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (operator != "") {
				return usagef("name a tenant, or an operator with --operator, and not both")
			}
			return f.read(cmd.Context(), func(d *desk) error {
				var events []event
				var err error
				if operator != "" {
					if events, err = d.doneBy(cmd.Context(), operator); err == nil {
						err = d.noteListing(cmd.Context(), "tenant history", "--operator", operator)
					}
				} else if _, err = d.Get(cmd.Context(), args[0]); err == nil {
					if events, err = d.events(cmd.Context(), args[0]); err == nil {
						err = d.note(cmd.Context(), args[0], "tenant history")
					}
				}
				if err != nil {
					return err
				}
				if !asJSON {
					return printEvents(f.out, events)
				}
				out := bufio.NewWriter(f.out)
				for _, e := range events {
					if err := json.NewEncoder(out).Encode(e); err != nil {
						return err
					}
				}
				return out.Flush()
			})
		},
	}
	wordVar(cmd.Flags(), &operator, "operator", "", "what this person did, as --by recorded it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

const historyPage = 500

// events is what was done to a tenant, oldest first.
func (d *desk) events(ctx context.Context, tenant string) ([]event, error) {
	events := []event{}
	for after := uint64(0); ; {
		lines, err := d.History(ctx, tenant, after, historyPage)
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			events = append(events, changeEvent(l))
			after = l.After.Epoch
		}
		if len(lines) < historyPage {
			break
		}
	}
	seen := map[string]bool{}
	for after := (time.Time{}); ; {
		accesses, err := d.Accesses(ctx, tenant, after, historyPage)
		if err != nil {
			return nil, err
		}
		fresh := 0
		for _, a := range accesses {
			key := a.At.String() + a.Operation // a page begins with the time that ended the one before
			if after = a.At; seen[key] {
				continue
			}
			seen[key] = true
			fresh++
			events = append(events, accessEvent(a))
		}
		if len(accesses) < historyPage || fresh == 0 {
			break
		}
	}
	sortEvents(events)
	return events, nil
}

// doneBy is what an operator did, oldest first.
func (d *desk) doneBy(ctx context.Context, operator string) ([]event, error) {
	events := []event{}
	for mark := (directory.Mark{}); ; {
		done, next, err := d.DoneBy(ctx, operator, mark, historyPage)
		if err != nil {
			return nil, err
		}
		if len(done.Accesses)+len(done.Changes)+len(done.Cells) == 0 {
			sortEvents(events)
			return events, nil
		}
		mark = next
		for _, a := range done.Accesses {
			events = append(events, accessEvent(a))
		}
		for _, l := range done.Changes {
			events = append(events, changeEvent(l))
		}
		for _, l := range done.Cells {
			events = append(events, event{
				At: l.After.Updated, By: l.By, Why: l.Why, Cell: l.After.Name, Operation: l.Operation,
				What: "cell " + l.After.Name + ": " + l.After.Did,
			})
		}
	}
}

// sortEvents puts events in the order of their times, but the changes of one tenant in that of their epochs:
// times are those of the clocks of whoever asked, and one may be behind.
func sortEvents(events []event) {
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Epoch, b.Epoch))
	})
	type timed struct {
		event
		from time.Time // the latest of its own and the times of the tenant's changes before it
	}
	latest := map[string]time.Time{}
	order := make([]timed, len(events))
	for i, e := range events {
		order[i] = timed{e, e.At}
		if e.Epoch == 0 {
			continue
		}
		if last := latest[e.Tenant]; e.At.Before(last) {
			order[i].from = last
		}
		latest[e.Tenant] = order[i].from
	}
	slices.SortStableFunc(order, func(a, b timed) int { return a.from.Compare(b.from) })
	for i := range order {
		events[i] = order[i].event
	}
}

func accessEvent(a directory.Access) event {
	return event{At: a.At, By: a.By, Why: a.Why, What: "looked: " + a.What, Tenant: a.Tenant, Operation: a.Operation}
}

func changeEvent(l directory.Logged) event {
	return event{
		At: l.After.Updated, By: l.By, Why: l.Why, What: changed(l.Before, l.After), Tenant: l.After.Tenant,
		Epoch: l.After.Epoch, Operation: l.After.Operation, Before: l.Before, After: &l.After,
	}
}

// changed tells in words what is different. before is nil for the first entry, and where only what came
// out is known.
func changed(before *directory.Entry, after directory.Entry) string {
	if before == nil {
		verb := "is"
		if after.Epoch == 1 {
			verb = "came"
		}
		what := []string{fmt.Sprintf("%s, in cell %s", after.State, after.Cell)}
		if after.Topology > 0 {
			what = append(what, fmt.Sprintf("topology %d", after.Topology))
		}
		if len(after.Pins) > 0 {
			what = append(what, "pinned to "+strings.Join(after.Pins, " "))
		}
		return verb + " " + strings.Join(what, ", ")
	}
	var what []string
	differs := func(name, from, to string) {
		if from != to {
			what = append(what, fmt.Sprintf("%s %s → %s", name, from, to))
		}
	}
	differs("state", string(before.State), string(after.State))
	differs("cell", before.Cell, after.Cell)
	differs("size", cmp.Or(before.Size, "default"), cmp.Or(after.Size, "default"))
	differs("pins", cmp.Or(strings.Join(before.Pins, " "), "none"), cmp.Or(strings.Join(after.Pins, " "), "none"))
	differs("topology", fmt.Sprint(before.Topology), fmt.Sprint(after.Topology))
	differs("slot", fmt.Sprint(before.Slot), fmt.Sprint(after.Slot))
	differs("load", before.Load.String(), after.Load.String())
	if len(what) == 0 {
		return "nothing but the epoch"
	}
	return strings.Join(what, ", ")
}

func printEvents(out io.Writer, events []event) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "when\twho\ttenant\tepoch\twhat\twhy")
	for _, e := range events {
		epoch := ""
		if e.Epoch > 0 {
			epoch = fmt.Sprint(e.Epoch)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.At.Format(time.RFC3339), shown(e.By), shown(e.Tenant), epoch, shown(e.What), shown(e.Why))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}
