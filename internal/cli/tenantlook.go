package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"cellwall.dev/cellwall/internal/directory"
)

// shownTenant is the JSON form of tenant show.
type shownTenant struct {
	Entry   directory.Entry `json:"entry"`
	Subset  []servingShard  `json:"subset"` // null when it cannot be computed
	Unknown string          `json:"subsetUnknown,omitempty"`
	Held    []holdingShard  `json:"held"`
	Silent  []silentShard   `json:"heldUnknown,omitempty"` // of these it is not known whether they hold it
	History []event         `json:"history"`
}

type servingShard struct {
	Shard string `json:"shard"`
	Zone  string `json:"zone,omitempty"`
	Holds *bool  `json:"holds"` // null when it could not be asked
}

// silentShard is one that could not be asked.
type silentShard struct {
	Shard string `json:"shard"`
	Why   string `json:"why"`
}

type holdingShard struct {
	Shard string `json:"shard"`
	Epoch uint64 `json:"epoch"`
}

func tenantShow(f *directoryFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show TENANT",
		Short: "Show a tenant's entry, subset, zones, who holds it, and its history",
		Long: `Show a tenant's entry, its subset with the zones, which shards of its cell hold it, and its history. This
is for operators: a tenant must not learn the shards of another.

The subset of a tenant that is not pinned needs the placement key; without it the rest is shown. A shard that
cannot be asked is shown as unknown, beside everything else, and the status is 1. That you looked is kept in the
record that tenant history prints.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.read(cmd.Context(), func(d *desk) error {
				s, err := d.show(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					err = f.json(s)
				} else {
					err = s.print(f.out)
				}
				return errors.Join(err, s.incomplete())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// incomplete is the error of an answer that lacks what shards would have said.
func (s *shownTenant) incomplete() error {
	if len(s.Silent) == 0 {
		return nil
	}
	return hint(fmt.Errorf("%s could not be asked whether they hold the tenant: %s", count(len(s.Silent), "shard"), s.Silent[0].Why),
		"all that is known is printed; ask again when they answer")
}

func (d *desk) show(ctx context.Context, tenant string) (*shownTenant, error) {
	e, err := d.Get(ctx, tenant)
	if err != nil {
		return nil, err
	}
	if err := d.note(ctx, tenant, "tenant show"); err != nil {
		return nil, err
	}
	s := &shownTenant{Entry: e, Held: []holdingShard{}}
	zones := map[string]string{} // of every shard that a topology of the cell names
	for t, err := range d.topologies(ctx, e.Cell) {
		if err != nil {
			return nil, err
		}
		for _, shard := range t.Shards {
			if t.Version == e.Topology || zones[shard.ID] == "" {
				zones[shard.ID] = shard.Zone
			}
		}
	}
	if s.Held, s.Silent, err = d.heldAmong(ctx, e, zones); err != nil {
		return nil, err
	}
	subset := e.Pins
	if len(subset) == 0 {
		subset, err = d.Subset(ctx, e)
	}
	switch {
	case errors.Is(err, errNoKey):
		s.Unknown = "needs the placement key: --key-file"
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil: // the rest is worth the more when keys are amiss
		s.Unknown = err.Error()
	default:
		s.Subset = []servingShard{}
		for _, shard := range subset {
			m := servingShard{Shard: shard, Zone: zones[shard]}
			if !slices.ContainsFunc(s.Silent, func(silent silentShard) bool { return silent.Shard == shard }) {
				holds := slices.ContainsFunc(s.Held, func(h holdingShard) bool { return h.Shard == shard })
				m.Holds = &holds
			}
			s.Subset = append(s.Subset, m)
		}
	}
	s.History, err = d.events(ctx, tenant)
	return s, err
}

// topologies is every topology of a cell, oldest first.
func (d *desk) topologies(ctx context.Context, cell string) iter.Seq2[directory.Topology, error] {
	const page = 100
	return func(yield func(directory.Topology, error) bool) {
		for after := uint64(0); ; {
			list, err := d.Topologies(ctx, cell, after, page)
			if err != nil {
				yield(directory.Topology{}, err)
				return
			}
			for _, t := range list {
				if after = t.Version; !yield(t, nil) {
					return
				}
			}
			if len(list) < page {
				return
			}
		}
	}
}

// askedAtOnce is how many shards are asked at the same time, and askedFor for how long each is waited for.
const (
	askedAtOnce = 16
	askedFor    = 10 * time.Second
)

// heldAmong asks every shard that a topology of the cell names, so that one shows which should have let go.
// One of a past topology may be gone with its table, and one that is in trouble is a reason to look: those that
// do not answer are told, and do not keep the others from it. An error is wrong use, which none would survive,
// or the end of ctx.
func (d *desk) heldAmong(ctx context.Context, e directory.Entry, zones map[string]string) ([]holdingShard, []silentShard, error) {
	shards := slices.Sorted(maps.Keys(zones))
	epochs, failures := make([]*uint64, len(shards)), make([]error, len(shards))
	g, asking := errgroup.WithContext(ctx)
	g.SetLimit(askedAtOnce)
	for i, shard := range shards {
		g.Go(func() error {
			one, cancel := context.WithTimeout(asking, askedFor)
			defer cancel()
			h, ok, err := d.holder.Held(one, e.Cell, shard, e.Tenant)
			if ok {
				epochs[i] = &h.Epoch
			}
			if err == nil {
				return nil
			}
			failures[i] = fmt.Errorf("ask shard %s/%s: %w", e.Cell, shard, err)
			if exit := (*exitError)(nil); ctx.Err() != nil || errors.As(err, &exit) && exit.code == ExitUsage {
				return failures[i]
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	held, silent := []holdingShard{}, []silentShard(nil)
	for i, shard := range shards {
		switch {
		case failures[i] != nil:
			silent = append(silent, silentShard{shard, failures[i].Error()})
		case epochs[i] != nil:
			held = append(held, holdingShard{shard, *epochs[i]})
		}
	}
	return held, silent, nil
}

func (s *shownTenant) print(out io.Writer) error {
	e := s.Entry
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "tenant\t%s\n", shown(e.Tenant))
	fmt.Fprintf(w, "cell\t%s\n", e.Cell)
	fmt.Fprintf(w, "state\t%s\n", e.State)
	fmt.Fprintf(w, "epoch\t%d\n", e.Epoch)
	fmt.Fprintf(w, "size class\t%s\n", cmp.Or(e.Size, "default"))
	fmt.Fprintf(w, "load\t%v requests per second\n", e.Load)
	if e.Internal {
		fmt.Fprintf(w, "internal\tyes\n")
	}
	fmt.Fprintf(w, "topology\t%d\n", e.Topology)
	if e.Slot > 0 {
		fmt.Fprintf(w, "slot\t%d\n", e.Slot)
	}
	fmt.Fprintf(w, "created\t%s\n", e.Created.Format(time.RFC3339))
	fmt.Fprintf(w, "changed\t%s\n", e.Updated.Format(time.RFC3339))
	fmt.Fprintf(w, "operation\t%s\n", shown(e.Operation))
	how := "computed"
	if len(e.Pins) > 0 {
		how = "pinned"
	}
	if s.Unknown != "" {
		fmt.Fprintf(w, "subset\t%s\n", s.Unknown)
	}
	for i, m := range s.Subset {
		label := ""
		if i == 0 {
			label = "subset, " + how
		}
		holds := "unknown whether it holds it"
		switch {
		case m.Holds == nil:
		case *m.Holds:
			holds = "holds it"
		default:
			holds = "does not hold it"
		}
		fmt.Fprintf(w, "%s\t%s\tzone %s\t%s\n", label, m.Shard, cmp.Or(m.Zone, "unknown"), holds)
	}
	var held []string
	for _, h := range s.Held {
		held = append(held, fmt.Sprintf("%s (epoch %d)", h.Shard, h.Epoch))
	}
	nobody := "nobody"
	if len(s.Silent) > 0 {
		nobody = "nobody that answered"
	}
	fmt.Fprintf(w, "held by\t%s\n", cmp.Or(strings.Join(held, ", "), nobody))
	for _, silent := range s.Silent {
		fmt.Fprintf(w, "unknown\t%s: %s\n", silent.Shard, shown(silent.Why))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	fmt.Fprintln(out)
	return printEvents(out, s.History)
}

func tenantList(f *directoryFlags) *cobra.Command {
	var cell, state string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tenants, all of them or by cell and state",
		Long: `List tenants, all of them or by cell and state. With --json each line is an object.

A tenant that is there during the whole of the listing is in it exactly once; with --cell or --state, one
that changed in the last moments may be listed as it was. That you listed them is kept, once for the
listing, in the record that tenant history --operator prints.`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			states := []directory.State{directory.Placing, directory.Active, directory.Suspended, directory.Moving}
			if state != "" && !slices.Contains(states, directory.State(state)) {
				return usagef("--state %q: want one of %v", state, states)
			}
			return f.read(ctx, func(d *desk) error {
				what := []string{"tenant list"}
				pages := func(after string, limit int) ([]directory.Entry, error) { return d.List(ctx, after, limit) }
				switch {
				case cell != "":
					if _, err := d.Cell(ctx, cell); err != nil {
						return err
					}
					pages = func(after string, limit int) ([]directory.Entry, error) { return d.ListCell(ctx, cell, after, limit) }
				case state != "":
					pages = func(after string, limit int) ([]directory.Entry, error) {
						return d.ListState(ctx, directory.State(state), after, limit)
					}
				}
				if cell != "" {
					what = append(what, "--cell", cell)
				}
				if state != "" {
					what = append(what, "--state", state)
				}
				if err := d.noteListing(ctx, what...); err != nil {
					return err
				}
				return f.printTenants(directory.Pages(pages), directory.State(state), asJSON)
			})
		},
	}
	wordVar(cmd.Flags(), &cell, "cell", "", "only tenants of this cell")
	wordVar(cmd.Flags(), &state, "state", "", "only tenants in this state: placing, active, suspended or moving")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// tenantsLine is a line of tenant list. Columns have widths that fit most, since a listing may be long and
// is not kept.
const tenantsLine = "%-24s  %-16s  %-9s  %5s  %-8s  %8s  %8s  %s\n"

func (f *directoryFlags) printTenants(entries iter.Seq2[directory.Entry, error], state directory.State, asJSON bool) error {
	out := bufio.NewWriter(f.out)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	if !asJSON {
		fmt.Fprintf(out, tenantsLine, "tenant", "cell", "state", "epoch", "size", "topology", "load", "pins")
	}
	for e, err := range entries {
		if err == nil && state != "" && e.State != state {
			continue
		}
		switch {
		case err != nil:
		case asJSON:
			err = lines.Encode(e)
		default:
			_, err = fmt.Fprintf(out, tenantsLine, shown(e.Tenant), e.Cell, e.State, fmt.Sprint(e.Epoch), cmp.Or(e.Size, "default"),
				fmt.Sprint(e.Topology), e.Load, strings.Join(e.Pins, " "))
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the tenants: %w", err)
	}
	return nil
}
