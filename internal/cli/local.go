package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell"
)

// local is what the commands under `cellwall local` share.
type local struct {
	*app
	stateDir string
}

const defaultStateDir = ".cellwall"

func localCommand(a *app) *cobra.Command {
	l := &local{app: a}
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run one cell on this machine, break it, and see what tenants feel",
		Long: `Run one cell of the fleet on this machine, without an AWS account: a router, a store and one process
for each shard, all on the loopback address.

Everything it keeps lies in the state directory, readable by its owner only.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&l.stateDir, "state-dir", defaultStateDir, "where the cell keeps its data, keys and logs")
	cmd.AddCommand(
		localUp(l), localDown(l), localStatus(l), localToken(l), localBreak(l), localTraffic(l),
		l.hidden("supervise", func(ctx context.Context, d localcell.Dir, self []string) error {
			return localcell.Supervise(ctx, d, self)
		}),
		l.hidden("guard", func(ctx context.Context, _ localcell.Dir, _ []string) error { return localcell.RunGuard(ctx, a.in) }),
		l.hidden("store", func(ctx context.Context, d localcell.Dir, _ []string) error { return localcell.RunStore(ctx, d) }),
		l.hidden("router", func(ctx context.Context, d localcell.Dir, _ []string) error { return localcell.RunRouter(ctx, d) }),
	)
	return cmd
}

// hidden is a command that is a process of a running cell.
func (l *local) hidden(name string, run func(context.Context, localcell.Dir, []string) error) *cobra.Command {
	return &cobra.Command{
		Use:    name,
		Short:  "A process of a local cell; `cellwall local up` starts it",
		Hidden: true,
		Args:   exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := l.dir()
			if err != nil {
				return err
			}
			self, err := self()
			if err != nil {
				return err
			}
			l.watches()
			return run(cmd.Context(), d, self)
		},
	}
}

// self is the command line of this program's local commands.
func self() ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	return []string{exe, "local"}, nil
}

func (l *local) dir() (localcell.Dir, error) {
	if l.stateDir == "" {
		return localcell.Dir{}, usagef("--state-dir is empty; name a directory")
	}
	return localcell.NewDir(l.stateDir)
}

// find is the running cell; status 3 when there is none.
func (l *local) find() (localcell.Dir, *localcell.Running, error) {
	d, err := l.dir()
	if err != nil {
		return d, nil, err
	}
	r, err := d.Find()
	if errors.Is(err, localcell.ErrNotRunning) {
		err = hint(foundf("%w", err), "start one with %s", "cellwall local up")
	}
	return d, r, stateError(err)
}

func localUp(l *local) *cobra.Command {
	var cell, worker, tenantsFile string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cell and leave it running",
		Long: `Start one cell of the fleet as separate processes on the loopback address and leave it running: a store
with the tenant directory, a router, a token issuer, and a worker process for each shard. What dies is
started again; when the supervisor dies, everything ends.

Tenants of the file that the directory does not know yet are added to it. A new cell places them as the
fleet says; after that, a change of the fleet is published and migrated to (cellwall topology).

Exit status 3 when a cell runs in the state directory already, when another cell lies there, and when the
fleet lacks a shard that a topology of the cell there names.`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := l.loadFleet()
			if err != nil {
				return err
			}
			tenants, err := l.tenants(tenantsFile)
			if err != nil {
				return err
			}
			self, err := self()
			if err != nil {
				return err
			}
			if worker == "" {
				worker = filepath.Join(filepath.Dir(self[0]), "worker")
			}
			if worker, err = filepath.Abs(worker); err != nil {
				return usagef("worker: %w", err)
			}
			if _, err := os.Stat(worker); err != nil {
				return hint(usagef("worker: %w", err), "build the sample with make build, or name your service's executable with --worker")
			}
			plan, err := localcell.NewPlan(f, cell, worker)
			if err != nil {
				return usagef("%w", err)
			}
			d, err := l.dir()
			if err != nil {
				return err
			}
			stop := heartbeat(l.err, fmt.Sprintf("starting cell %s with %s", plan.Cell, count(len(plan.Shards()), "shard")))
			l.watches() // what it has started must not stay
			r, admitted, err := d.Up(cmd.Context(), plan, tenants.tenants, self)
			stop()
			if err != nil {
				return upError(err)
			}
			if !admitted.AsFleet {
				fmt.Fprintf(l.err, "cell %s places its tenants by topology %d, and the fleet says otherwise: cellwall topology diff %s tells who would move, topology publish and migrate move them\n",
					r.Cell, admitted.Topology, r.Cell)
			}
			return l.printUp(r, plan, admitted.Tenants, tenants.tenants[0], asJSON)
		},
	}
	cmd.Flags().StringVar(&cell, "cell", "", "cell of the fleet (default: the first that is not for internal tenants only)")
	cmd.Flags().StringVar(&worker, "worker", "", "executable of the service (default: the file worker beside cellwall)")
	cmd.Flags().StringVar(&tenantsFile, "tenants", "", "file with one tenant a line, or CSV with the header tenant,load (default: a sample of 200)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// tenants reads the file; without one, the sample that comes with cellwall.
func (l *local) tenants(file string) (*population, error) {
	if file == "" {
		return readPopulation(localcell.SampleTenants(), "the sample", directoryID)
	}
	return l.filePopulation(file, directoryID)
}

func upError(err error) error {
	switch {
	case errors.Is(err, localcell.ErrWorker):
		return hint(usagef("%w", err), "build the sample with make build, or name your service's executable with --worker")
	case errors.Is(err, localcell.ErrRunning):
		return hint(foundf("%w", err), "cellwall local status shows it, cellwall local down ends it")
	case errors.Is(err, localcell.ErrOtherCell):
		return hint(foundf("%w", err), "use another --state-dir, or give the old cell's data up with cellwall local down --purge")
	case errors.Is(err, directory.ErrKey):
		return hint(usagef("%w", err), "put the key file back that the cell had in the state directory; another one would place all of its tenants elsewhere")
	case errors.Is(err, directory.ErrService):
		return hint(usagef("%w", err), "use another --state-dir, or name that service's fleet with --fleet")
	case errors.Is(err, localcell.ErrLostShard):
		return hint(foundf("%w", err), "put the shard back; to take it away, publish a topology --without it, migrate, and retire the versions that name it first")
	}
	return stateError(err)
}

// stateError turns what is wrong with the state directory into wrong use, and says what to do about it.
func stateError(err error) error {
	switch {
	case errors.Is(err, localcell.ErrNotState):
		return hint(usagef("%w", err), "name a new or empty directory, or one that cellwall local up made, with --state-dir")
	case errors.Is(err, localcell.ErrDamaged):
		return hint(err, "remove what is left of the cell with cellwall local down --purge, or use another --state-dir")
	case errors.Is(err, boltfile.ErrLocked):
		return hint(foundf("%w", err), "a command over that file has it, or a process of a cell that was killed: wait until it has ended, or end it")
	}
	return err
}

// upReport is the JSON form of local up.
type upReport struct {
	Cell       string   `json:"cell"`
	Router     string   `json:"router"`
	Issuer     string   `json:"issuer"`
	Shards     []string `json:"shards"`
	NewTenants int      `json:"newTenants"`
}

// printUp says where the cell is, with a request of one of its tenants to try.
func (l *local) printUp(r *localcell.Running, plan localcell.Plan, added int, tenant string, asJSON bool) error {
	if asJSON {
		return l.json(upReport{r.Cell, r.Router, r.Issuer, plan.Shards(), added})
	}
	token := program() + " local token "
	if l.stateDir != defaultStateDir {
		token += "--state-dir " + quote(l.stateDir) + " "
	}
	token += quote(tenant)
	_, err := fmt.Fprintf(l.out, `cell %s is up: %s, %s added
router  %s
issuer  %s
try     curl -H "Authorization: Bearer $(%s)" -X PUT -d hello %s/orders/1
`, r.Cell, count(len(plan.Shards()), "shard"), count(added, "tenant"), r.Router, r.Issuer, token, r.Router)
	return err
}

// quote is a word of a shell command.
func quote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-") == "" && word[0] != '-' {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// program is how the user called this program.
func program() string {
	if len(os.Args) > 0 && os.Args[0] != "" {
		return os.Args[0]
	}
	return "cellwall"
}

func (a *app) json(value any) error {
	if err := json.NewEncoder(a.out).Encode(value); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

func localDown(l *local) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End the running cell; its data stays",
		Long: `End the cell that runs in the state directory and wait for the last of its processes. Its data stays for
the next up, unless --purge is given. Exit status 0, too, when none is running.`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := l.dir()
			if err != nil {
				return err
			}
			stop := heartbeat(l.err, "ending the cell")
			l.watches()
			err = d.Down(cmd.Context(), purge)
			stop()
			if errors.Is(err, localcell.ErrNotRunning) {
				fmt.Fprintln(l.err, err)
				return nil
			}
			return stateError(err)
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the cell's data and keys, too")
	return cmd
}

func localToken(l *local) *cobra.Command {
	return &cobra.Command{
		Use:   "token TENANT",
		Short: "Print a tenant's token, valid for an hour",
		Long: `Print a token of the running cell's issuer that names the tenant. It is valid for an hour. Any id of 1 to
128 bytes gets one; whether the tenant exists is for the router to find out.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !directory.ValidTenant(args[0]) {
				return usagef("TENANT %q: want 1 to 128 bytes of UTF-8", args[0])
			}
			_, r, err := l.find()
			if err != nil {
				return err
			}
			tokens, err := r.Tokens(cmd.Context(), args[0])
			if err != nil {
				return localError(err)
			}
			_, err = fmt.Fprintln(l.out, tokens[0])
			return err
		},
	}
}

func localBreak(l *local) *cobra.Command {
	var long time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "break SHARD",
		Short: "Kill a shard's process and keep it down for a while",
		Args:  exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, r, err := l.find()
			if err != nil {
				return err
			}
			b, err := r.Break(cmd.Context(), args[0], long)
			if err != nil {
				return localError(err)
			}
			if asJSON {
				return l.json(b)
			}
			_, err = fmt.Fprintf(l.out, "shard %s is down (process %d was killed) until %s\n", b.Shard, b.PID, b.Until.Local().Format(time.TimeOnly))
			return err
		},
	}
	cmd.Flags().DurationVar(&long, "for", 10*time.Second, "how long, up to 10m")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// localError turns what the supervisor refused into wrong use.
func localError(err error) error {
	if localcell.Refused(err) {
		return usagef("%w", err)
	}
	return err
}

// heartbeat says on w what takes so long, each second, until the function it returns is called.
func heartbeat(w io.Writer, what string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	begun := time.Now()
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(w, "%s: %d s\n", what, int(time.Since(begun).Seconds()))
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}
