// Package cdkdeploy runs the CDK's command line as a process, to publish an assembly's assets and make change sets. It
// never has it execute one.
//
// What the command line does beside that (aws-cdk 2.1148.1), and whom it therefore needs in front of it:
//
//   - it deletes a stack in ROLLBACK_COMPLETE or ROLLBACK_FAILED, and one whose template has no resources, and sets
//     termination protection as the assembly has it, before it makes a change set: whoever calls Prepare reads the
//     stacks first;
//   - it leaves an empty change set, as FAILED, and exits 0; a stack that is new stays in REVIEW_IN_PROGRESS;
//   - it writes into the assembly's folder: locks that only tell others off who would synthesise there, so that any number of
//     processes may deploy from one folder, and in .cache the archives of assets, each under a name of its own first. It
//     takes an archive that lies there for what it would make itself: the folder must be nobody else's;
//   - it takes options from CDK_… variables, from cdk.json in the working folder and from .cdk.json in the home folder.
//     Here it gets neither of the first two, and is not run when the third would change a deployment;
//   - it compares the credentials' account with each stack's, but goes through the bootstrap's roles where it may: whoever
//     calls Prepare checks accounts first.
//
// Its exit status 0 says nothing: whoever calls Prepare looks for the change sets.
package cdkdeploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/rollout/release"
)

// DefaultProgram is where npm puts the command line, beside the fleet's file.
const DefaultProgram = "node_modules/.bin/cdk"

// concurrency is the most stacks of which change sets are made at once by one process.
const concurrency = 8

// processes is how many run at once; the others wait. Each takes some 220 MB and a second of a processor only to begin
// (aws-cdk 2.1148.1), and a way back asks for all cells together: a machine that runs out of memory then loses the driver, too.
const processes = 8

// limit is how long one may take. It waits without an end where a connection is silent, and so would the rollout.
const limit = time.Hour

// grace is how long the command line has to end by itself once it was asked to.
const grace = 10 * time.Second

// Config is how to run the command line.
type Config struct {
	Program string   // the file, DefaultProgram where empty
	Logs    string   // the folder that gets a file of output for each run; none where empty
	Environ []string // os.Environ() where nil
}

// CLI runs the command line. It is safe for concurrent use.
type CLI struct {
	program, logs string
	environ       []string
	grace, limit  time.Duration
	places        chan struct{} // one for each process
}

var _ release.Preparer = (*CLI)(nil)

// New returns the command line, which must be there.
func New(c Config) (*CLI, error) {
	if c.Program == "" {
		c.Program = DefaultProgram
	}
	program, err := filepath.Abs(c.Program)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(program)
	if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
		err = errors.New("it is no program")
	}
	if err != nil {
		return nil, fmt.Errorf("the CDK's command line, %s: %w; npm ci in the project's folder installs it", program, err)
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	logs := c.Logs
	if logs != "" {
		if logs, err = filepath.Abs(logs); err != nil {
			return nil, err
		}
	}
	return &CLI{program: program, logs: logs, environ: environ(c.Environ), grace: grace, limit: limit, places: make(chan struct{}, processes)}, nil
}

// environ is the environment without what would be options, and without what the command line sends to AWS or asks of
// npm beside its work.
func environ(given []string) []string {
	env := slices.DeleteFunc(slices.Clone(given), func(v string) bool {
		return strings.HasPrefix(strings.ToUpper(v), "CDK_") || strings.HasPrefix(v, "FORCE_COLOR=")
	})
	return append(env, "CI=true", "NO_COLOR=1", "CDK_DISABLE_CLI_TELEMETRY=true", "CDK_DISABLE_VERSION_CHECK=1")
}

// Of what is given to the command line: a stack's id is a pattern to it, and a change set's name is CloudFormation's.
var (
	idForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_/-]*$`)
	setForm = regexp.MustCompile(`^[a-zA-Z][-a-zA-Z0-9]{0,127}$`)
)

func args(dir, set string, stacks []string) ([]string, error) {
	if !setForm.MatchString(set) {
		return nil, fmt.Errorf("%q is no name of a change set", set)
	}
	if len(stacks) == 0 {
		return nil, errors.New("no stack is named, which would be all of them")
	}
	for _, id := range stacks {
		if !idForm.MatchString(id) {
			return nil, fmt.Errorf("%q is no id of a stack that stands for itself alone", id)
		}
	}
	return append([]string{
		"deploy", "--app", dir, "--exclusively", "--method", "prepare-change-set", "--change-set-name", set,
		"--require-approval", "never", "--concurrency", strconv.Itoa(min(len(stacks), concurrency)), "--progress", "events",
		"--no-notices", "--no-version-reporting", "--no-color",
	}, stacks...), nil
}

// Prepare implements release.Preparer. When ctx ends, the command line and all that it has started are ended.
func (c *CLI) Prepare(ctx context.Context, dir, set string, stacks []string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	args, err := args(dir, set, stacks)
	if err != nil {
		return fmt.Errorf("prepare change sets: %w", err)
	}
	if err := c.settings(); err != nil {
		return err
	}
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-ctx.Done():
		return fmt.Errorf("prepare change sets of %s: not begun: %w", strings.Join(stacks, " "), context.Cause(ctx))
	}
	cwd, err := os.MkdirTemp("", "cellwall-cdk-") // without a cdk.json
	if err != nil {
		return err
	}
	defer os.RemoveAll(cwd)
	out, err := newOutput(c.logs, set+"-"+stacks[0])
	if err != nil {
		return err
	}
	err = c.run(ctx, cwd, out, args)
	log := out.close()
	if err == nil {
		return nil
	}
	what := "cdk deploy --method prepare-change-set of " + stacks[0]
	if more := len(stacks) - 1; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	if log != "" {
		what += ", whose output is in " + log
	}
	if tail := out.tail(); tail != "" {
		return fmt.Errorf("%s: %w; it ended with:\n%s", what, err, tail)
	}
	return fmt.Errorf("%s: %w; it said nothing", what, err)
}

func (c *CLI) run(ctx context.Context, cwd string, out *output, args []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("it took more than %v", c.limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Dir, cmd.Env = cwd, c.environ
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = c.grace
	group(cmd)
	err := cmd.Run()
	ended(cmd) // what it leaves behind
	if ctx.Err() != nil {
		return fmt.Errorf("it was ended: %w", context.Cause(ctx))
	}
	return err
}

// harmless are the settings of .cdk.json that do not change what is deployed.
var harmless = []string{"acknowledged-issue-numbers", "notices", "versionReporting", "language", "browser", "context"}

// settingsFile is where the command line looks for the user's own settings.
func (c *CLI) settingsFile() (string, error) {
	home := ""
	for _, v := range c.environ {
		if h, ok := strings.CutPrefix(v, "HOME="); ok {
			home = h
		}
	}
	if home == "" { // as in a service of the system: the command line asks the system whose it is, then
		u, err := user.Current()
		if err != nil {
			return "", fmt.Errorf("the CDK's settings: there is no HOME, and the system does not know whose it would be: %w", err)
		}
		home = u.HomeDir
	}
	return filepath.Join(home, ".cdk.json"), nil
}

// settings sees that the user's own settings do not reach the stacks of a fleet.
func (c *CLI) settings() error {
	file, err := c.settingsFile()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var set map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), &set)
	}
	if err != nil {
		return fmt.Errorf("the CDK's settings in %s: %w", file, err)
	}
	maps.DeleteFunc(set, func(key string, _ json.RawMessage) bool { return slices.Contains(harmless, key) })
	if len(set) > 0 {
		return fmt.Errorf("the CDK's settings in %s have %s, which would change what is deployed: take them out", file, strings.Join(slices.Sorted(maps.Keys(set)), ", "))
	}
	return nil
}
