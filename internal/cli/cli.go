// Package cli is the command line of cellwall, a file per command. Data goes to standard output,
// everything else to standard error. Exit status: 0 done, 1 failed, 2 wrong use (flags, files,
// configuration), 3 found something or refused, 128 and its number when a signal ended the command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/rollout/show"
)

// Exit statuses of every command.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitFound  = 3
)

// app is what every command gets: the streams and the global flags.
type app struct {
	in        io.Reader
	out, err  io.Writer
	fleetFile string
	watching  atomic.Bool // see watches

	rollouts rolloutParts
	terminal func(io.Writer) (show.Look, bool) // see terminalOf
}

// exitError carries an exit status other than ExitFailed, with an optional hint on what to do.
type exitError struct {
	code int
	err  error
	hint string
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef is wrong use: a flag, a file or the configuration. Exit status 2.
func usagef(format string, args ...any) error {
	return &exitError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// foundf is a finding or a refusal, when all else went well. Exit status 3.
func foundf(format string, args ...any) error {
	return &exitError{code: ExitFound, err: fmt.Errorf(format, args...)}
}

// hint adds what to do next to an error, and keeps its exit status.
func hint(err error, format string, args ...any) error {
	e := &exitError{code: ExitFailed, err: err}
	var inner *exitError
	if errors.As(err, &inner) {
		e.code = inner.code
	}
	e.hint = fmt.Sprintf(format, args...)
	return e
}

// output is standard output. It keeps the first error of writing to it, so that no command, nor the help, is
// done while what it had to say is lost. A process that is begun without a standard output has one that goes
// nowhere, as Go's runtime provides it: that is no error.
type output struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.to.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// lost is the error of a command whose output did not arrive. It has status 1, also when the command found
// something: what it found cannot be told.
func (o *output) lost(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil || err != nil && statusOf(err) == ExitFailed && errors.Is(err, o.err) {
		return err
	}
	return fmt.Errorf("what the command printed is lost, in whole or in part: writing to standard output: %w", o.err)
}

// Run runs one command line and returns its exit status. When ctx ends, the command may go on for as long
// as the caller lives, if it has nothing to leave in order; the caller is to exit then.
func Run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	to := &output{to: out}
	a := &app{in: in, out: to, err: errw, rollouts: realRollouts(), terminal: terminalOf}
	return a.run(ctx, to, args)
}

func (a *app) run(ctx context.Context, to *output, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(to)
	root.SetErr(a.err)
	err := a.untilInterrupted(ctx, func() error { return to.lost(root.ExecuteContext(ctx)) })
	if err == nil {
		return ExitDone
	}
	fmt.Fprintln(a.err, "error:", printed(err.Error()))
	if e, ok := errors.AsType[*exitError](err); ok && e.hint != "" {
		fmt.Fprintln(a.err, "hint:", printed(e.hint))
	}
	return statusOf(err)
}

// printed is a message of several lines for a terminal: whatever it quotes of arguments, files and answers
// cannot move a cursor, since what does not print is escaped as Go has it.
func printed(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == '\n' || r == '\t' || unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(text[:n])
		} else {
			q := strconv.Quote(text[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		text = text[n:]
	}
	return b.String()
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "cellwall",
		Short:         "Cells of shards on AWS, in which a single bad shard is a footnote",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noCommand,
		Version:       version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: a.namedFleet,
	}
	root.SetVersionTemplate("cellwall {{.Version}}\n")
	root.SetHelpCommand(helpCommand())
	root.PersistentFlags().StringVar(&a.fleetFile, "fleet", "fleet.yaml", "the fleet's description")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return hint(usagef("%w", err), "see %s --help", cmd.CommandPath())
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	for _, add := range commands {
		root.AddCommand(add(a))
	}
	return root
}

// commands are the first words of the command line, each from the file of its name.
var commands = []func(*app) *cobra.Command{
	auditCommand,
	blastCommand,
	cellCommand,
	fleetCommand,
	localCommand,
	placeCommand,
	planCommand,
	rolloutCommand,
	shardCommand,
	tenantCommand,
	topologyCommand,
}

// noCommand refuses a word that is no command, with status 2.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return hint(usagef("unknown command %q for %s", args[0], cmd.CommandPath()), "see %s --help", cmd.CommandPath())
}

// exactly and atLeast are cobra's argument checks with status 2.
func exactly(n int) cobra.PositionalArgs { return usageArgs(cobra.ExactArgs(n)) }

func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return hint(usagef("%w", err), "usage: %s", cmd.UseLine())
		}
		if i := slices.Index(args, ""); i >= 0 { // an unset variable of a script is not to mean something else
			return hint(usagef("argument %d is empty: give it a value", i+1), "usage: %s", cmd.UseLine())
		}
		return nil
	}
}
