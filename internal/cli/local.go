package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
		Short: "Run cells on this machine, break them, and see what tenants feel",
		Long: `Run one cell of the fleet on this machine, or several behind a front door, without an AWS account: a
store, a token issuer, and for each cell a router and one process for each shard, all on the loopback address.

Everything it keeps lies in the state directory, readable by its owner only.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&l.stateDir, "state-dir", defaultStateDir, "where the cell keeps its data, keys and logs")
	cmd.AddCommand(
		localUp(l), localDown(l), localStatus(l), localToken(l), localBreak(l), localFail(l), localHeal(l), localPoison(l), localTraffic(l))
	cmd.AddCommand(l.processes()...)
	return cmd
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

// tenants reads the file; without one, the sample that comes with cellwall.
func (l *local) tenants(file string) (*population, error) {
	if file == "" {
		return readPopulation(localcell.SampleTenants(), "the sample", directoryID)
	}
	return l.filePopulation(file, directoryID)
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

// command is what to type for a command of local words, for the state directory in use.
func (l *local) command(words ...string) string {
	all := program() + " local " + strings.Join(words, " ")
	if l.stateDir != defaultStateDir {
		all += " --state-dir " + quote(l.stateDir)
	}
	return all
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
		Use:   "break CELL/SHARD",
		Short: "Kill a shard's process and keep it down for a while",
		Long: `Kill a shard's process and keep it down for a while. The shard is named by its id or its number, and without
the cell where that is clear: eu-1/7, eu-1/s07 and s07 are one.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, r, err := l.find()
			if err != nil {
				return err
			}
			processes, err := r.Status(cmd.Context())
			if err != nil {
				return err
			}
			shard, err := localcell.ShardName(shardNames(processes), args[0])
			if err != nil {
				return usagef("%w", err)
			}
			b, err := r.Break(cmd.Context(), shard, long)
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
