package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell"
)

// target is the process that the words of fail and heal name.
func (l *local) target(r *localcell.Running, status []localcell.ProcessStatus, words []string) (string, error) {
	kind, of := words[0], words[1:]
	switch {
	case kind == "shard" && len(of) == 1:
		name, err := localcell.ShardName(shardNames(status), of[0])
		if err != nil {
			return "", usagef("%w", err)
		}
		return name, nil
	case kind == "shard":
		return "", usagef("which shard? name it as CELL/SHARD or SHARD, by its id or its number: %s", strings.Join(shardNames(status), ", "))
	case len(of) == 0 && (kind == "directory" || kind == "store" || kind == "issuer"):
		return kind, nil
	case kind == "keeper" && len(of) == 0 && r.Only() != "":
		return kind, nil
	case kind == "keeper" && len(of) == 1 && r.Only() == of[0]:
		return kind, nil
	case kind == "keeper" && len(of) == 1:
		return of[0] + "/" + kind, nil
	case kind == "keeper":
		return "", usagef("which keeper? name one of %s, or global, which is the front door's", strings.Join(r.Names(), ", "))
	}
	return "", usagef("%q: want shard CELL/SHARD, directory, store, issuer, or keeper CELL", strings.Join(words, " "))
}

// failReport is the JSON form of local fail.
type failReport struct {
	Process string          `json:"process"`
	Fault   localcell.Fault `json:"fault"`
	Changed bool            `json:"changed"` // false when it was broken so already
}

func localFail(l *local) *cobra.Command {
	var f localcell.Fault
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fail shard CELL/SHARD | directory | store | issuer | keeper [CELL]",
		Short: "Break a process until it is healed",
		Long: `Break a shard's process, the tenant directory, the store of the tenants' state and jobs, the token issuer or a
cell's keeper, or keeper global, the front door's, until local heal. A shard is named by its id or its number, with its cell or, where that is
clear, without: eu-1/7, eu-1/s07 and s07 are one.

  --how kill      SIGKILL; it is not started again
  --how hang      SIGSTOP: it takes connections and answers nothing; what follows it is stopped, too
  --how slow      a shard takes --factor times its own time (10)
  --how errors    a shard answers --status (500), and does nothing
  --how throttle  a shard answers as a Lambda slice whose reserved concurrency is used up, and does nothing: the
                  router takes it as not sent. Only routes via lambda know this answer; over http it is a 429
                  of the service, and a job comes again

The last three put a process of its own, a gate, between the router and the shard's worker; the router knows
nothing of it. The worker is asked to end in good order for that, and starts again behind the gate. A fault
lasts, whatever dies and starts again, until it is healed, replaced by another, or the cell goes down.
To break a shard for a while only, see local break.

Exit status 0, too, when it is broken so already.`,
		Args: usageArgs(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.How == "" {
				return usagef("--how: want kill, hang, slow, errors or throttle")
			}
			_, r, err := l.find()
			if err != nil {
				return err
			}
			status, err := r.Status(cmd.Context())
			if err != nil {
				return err
			}
			name, err := l.target(r, status, args)
			if err != nil {
				return err
			}
			l.watches()
			stop := heartbeat(l.err, "breaking "+name)
			changed, err := r.Fail(cmd.Context(), name, f)
			stop()
			if err != nil {
				return localError(err)
			}
			if asJSON {
				now, err := r.Status(cmd.Context())
				if err != nil {
					return err
				}
				for _, p := range now {
					if p.Name == name && p.Fault != nil {
						return l.json(failReport{name, *p.Fault, changed})
					}
				}
				return errors.New("somebody healed it at once")
			}
			was := ""
			if !changed {
				was = ", as it was already"
			}
			_, err = fmt.Fprintf(l.out, "%s fails by %s%s; heal it with %s\n", name, f.How, was, l.command(append([]string{"heal"}, args...)...))
			return err
		},
	}
	cmd.Flags().StringVar(&f.How, "how", "", "kill, hang, slow, errors or throttle")
	floatVar(cmd.Flags(), &f.Factor, "factor", 0, "with slow: times the shard's own time, 1.1 to 10000 (0: 10)")
	intVar(cmd.Flags(), &f.Status, "status", 0, "with errors: 500 to 599 (0: 500)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func localHeal(l *local) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "heal [shard CELL/SHARD | directory | store | issuer | keeper [CELL] | tenant TENANT]",
		Short: "End faults: all of them, or one",
		Long: `End what local fail and local poison began: all of it, or one process's or tenant's part. It returns when the
processes answer again. What was killed starts, what was stopped goes on where it was, a gate goes away. Exit
status 0, too, when nothing was broken, 2 when neither the poison nor the directory knows the tenant.`,
		Args: usageArgs(cobra.MaximumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, r, err := l.find()
			if err != nil {
				return err
			}
			healed, err := l.heal(cmd, d, r, args)
			if err != nil {
				return localError(err)
			}
			if asJSON {
				return l.json(healed)
			}
			if len(healed.Processes)+len(healed.Tenants) == 0 {
				_, err = fmt.Fprintln(l.out, "nothing was broken")
				return err
			}
			for _, name := range healed.Processes {
				fmt.Fprintf(l.out, "%s is whole\n", name)
			}
			for _, tenant := range healed.Tenants {
				fmt.Fprintf(l.out, "tenant %q is poisonous no more\n", tenant)
			}
			return nil // a write that failed is told by whoever runs the command
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (l *local) heal(cmd *cobra.Command, d localcell.Dir, r *localcell.Running, args []string) (localcell.Healed, error) {
	ctx := cmd.Context()
	if len(args) > 0 && args[0] == "tenant" {
		if len(args) != 2 {
			return localcell.Healed{}, usagef("which tenant?")
		}
		healed := localcell.Healed{Processes: []string{}, Tenants: []string{}}
		l.watches()
		defer heartbeat(l.err, "healing")()
		changed, err := r.Antidote(ctx, args[1])
		if changed {
			healed.Tenants = append(healed.Tenants, args[1])
		}
		if changed || err != nil {
			return healed, err
		}
		// Whoever was not poisonous may be misspelled. A directory that does not answer is no reason to fail.
		if _, err := d.Entry(ctx, r, args[1]); errors.Is(err, directory.ErrNotFound) || errors.Is(err, directory.ErrInvalid) {
			return healed, directoryError(err)
		}
		return healed, nil
	}
	name := ""
	if len(args) > 0 {
		status, err := r.Status(ctx)
		if err != nil {
			return localcell.Healed{}, err
		}
		if name, err = l.target(r, status, args); err != nil {
			return localcell.Healed{}, err
		}
	}
	l.watches()
	defer heartbeat(l.err, "healing")()
	return r.Heal(ctx, name)
}

func localPoison(l *local) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "poison TENANT",
		Short: "Have each request of a tenant kill the worker that is to serve it",
		Long: `From now on each request of the tenant that reaches a shard of its cell kills the shard's worker, before it
is asked. The worker starts again as it does whenever it dies. This needs a gate before each worker of the cell;
each is asked to end in good order for that, one after the other. local heal, or local heal tenant TENANT, ends it.

Exit status 0, too, when the tenant is poisonous already, 2 when the directory does not know it.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, r, err := l.find()
			if err != nil {
				return err
			}
			if !directory.ValidTenant(args[0]) {
				return usagef("TENANT %q: want 1 to 128 bytes of UTF-8", args[0])
			}
			entry, err := d.Entry(cmd.Context(), r, args[0])
			if err != nil {
				return directoryError(err)
			}
			l.watches()
			stop := heartbeat(l.err, "poisoning")
			changed, err := r.Poison(cmd.Context(), entry.Cell, args[0])
			stop()
			if err != nil {
				return localError(err)
			}
			if asJSON {
				return l.json(struct {
					Tenant  string `json:"tenant"`
					Cell    string `json:"cell"`
					Changed bool   `json:"changed"`
				}{args[0], entry.Cell, changed})
			}
			_, err = fmt.Fprintf(l.out, "each request of tenant %q kills the worker of cell %s that is to serve it; heal it with %s\n",
				args[0], entry.Cell, l.command("heal", "tenant", quote(args[0])))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
