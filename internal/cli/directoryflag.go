package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell"
)

// Values of --directory beside the path of a file.
const (
	directoryLocal = "local"
	directoryAWS   = "aws"
)

// directoryFlags are the flags of every command over the directory.
type directoryFlags struct {
	*app
	directory, stateDir, keyFile string
	roleName                     string
	by, because, operation       string
	create                       bool // a directory's file that is not there is made
	holdAnew                     bool // a file of who holds whom that is not there is made, and stays when desk.keep says so
}

// register adds the flags to a command and those below it.
func (f *directoryFlags) register(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	wordVar(flags, &f.directory, "directory", "", "which directory: local, aws, or a bbolt FILE (default: local while a cell runs in the state directory)")
	flags.StringVar(&f.stateDir, "state-dir", defaultStateDir, "of the local cell")
	wordVar(flags, &f.keyFile, "key-file", "", "file with the placement key in hexadecimal, at least 32 bytes, for every cell and key version of the directory, or with {version: key} as a cell's secret has it")
	wordVar(flags, &f.roleName, "role-name", "", "with --directory aws: IAM role to assume in each account of the fleet that the AWS credentials are not of, as NAME or PATH/NAME")
	wordVar(flags, &f.by, "by", "", "who does this, for the record (default: the name of this machine's user)")
	flags.StringVar(&f.because, "because", "", "why, for the record")
	wordVar(flags, &f.operation, "operation", "", "id of the change: give it to repeat a change whose answer was lost (default: a new one)")
}

// desk is an open directory with an operator before it.
type desk struct {
	*directory.Residence
	holder    directory.Holder
	keys      directory.Keys
	vault     vault                       // where placement keys lie; nil where they come by a flag
	reach     func(cells ...string) error // refuses, before anything is done, cells whose shards are out of reach
	where     string                      // for people
	running   []string                    // that alone live in the directory; empty when there are no such
	by, why   string
	operation string
	at        time.Time
	close     func() error
	keep      func() error // what was made anew of who holds whom stays; nil when nothing was
	reads     bool         // no tenant, cell or topology is changed, or whoever changes them says how to go on
	files     []string     // that the directory lies in, or that it is opened with
}

// keyed refuses, before anything is done, what needs a placement key, without one.
func (d *desk) keyed(ctx context.Context) error {
	if _, err := d.keys(ctx, "", ""); errors.Is(err, errNoKey) {
		return err
	}
	return nil
}

// errNoKey is the error of what needs subsets, without a key.
var errNoKey = errors.New("this needs the placement key, and none was given")

// with opens the directory, does something with it, and closes it.
func (f *directoryFlags) with(ctx context.Context, do func(*desk) error) (err error) {
	d, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	err = do(d)
	return d.explain(err)
}

// read is with for a command that changes no tenant, cell or topology, or says by itself how to go on.
func (f *directoryFlags) read(ctx context.Context, do func(*desk) error) error {
	return f.with(ctx, func(d *desk) error {
		d.reads = true
		return do(d)
	})
}

// name is who does this.
func (f *directoryFlags) name() (string, error) {
	if f.by != "" {
		return f.by, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", hint(usagef("who are you: %w", err), "say it with --by NAME")
	}
	return u.Username, nil
}

func (f *directoryFlags) open(ctx context.Context) (*desk, error) {
	d := &desk{why: f.because, operation: f.operation, at: time.Now().UTC(),
		reach: func(...string) error { return nil }, close: func() error { return nil }}
	var err error
	if d.by, err = f.name(); err != nil {
		return nil, err
	}
	if d.operation == "" {
		d.operation = "cli-" + rand.Text()
	}
	var given *keyFile
	if f.keyFile != "" {
		if given, err = readKeyFile(f.keyFile); err != nil {
			return nil, err
		}
	}
	home, keys, err := f.home(ctx, d)
	if err != nil {
		return nil, err
	}
	if given != nil {
		keys = func(_ context.Context, _, version string) ([]byte, error) { return given.version(version) }
	}
	if d.keys = keys; keys == nil {
		d.keys = func(context.Context, string, string) ([]byte, error) { return nil, errNoKey }
	}
	dir, err := directory.Open(ctx, home)
	if err != nil {
		return nil, errors.Join(directoryError(err), d.close())
	}
	d.files = append(d.files, f.keyFile, f.fleetFile)
	d.Residence = directory.NewResidence(dir, d.holder, d.keys)
	return d, nil
}

// home finds the directory's home, the holder and, when it needs no flag, the placement key. It sets
// d.holder, d.where and d.close.
func (f *directoryFlags) home(ctx context.Context, d *desk) (directory.Home, directory.Keys, error) {
	where := f.directory
	if where == "" {
		where = directoryLocal
	}
	if f.roleName != "" && where != directoryAWS {
		return nil, nil, usagef("--role-name %s: only --directory aws lies in accounts", f.roleName)
	}
	switch where {
	case directoryLocal:
		return f.localHome(d)
	case directoryAWS:
		return f.awsHome(ctx, d)
	}
	return f.fileHome(ctx, d)
}

// localHome is the directory of the running local cell, through its store process.
func (f *directoryFlags) localHome(d *desk) (directory.Home, directory.Keys, error) {
	if f.stateDir == "" {
		return nil, nil, usagef("--state-dir is empty; name a directory")
	}
	state, err := localcell.NewDir(f.stateDir)
	if err != nil {
		return nil, nil, err
	}
	r, err := state.Find()
	if errors.Is(err, localcell.ErrNotRunning) {
		if f.directory == "" {
			return nil, nil, hint(usagef("which directory? none is named, and %w", err), "name one with --directory aws or --directory FILE, or start a local cell with cellwall local up")
		}
		return nil, nil, hint(foundf("%w", err), "start one with cellwall local up")
	}
	if err != nil {
		return nil, nil, err
	}
	home, err := r.Directory()
	if err != nil {
		return nil, nil, err
	}
	if d.holder, err = r.Holder(); err != nil {
		return nil, nil, err
	}
	d.files = filesIn(state.String())
	d.vault = localVault{state}
	d.where, d.running = "the local cell in "+state.String(), r.Names()
	return home, func(_ context.Context, cell, version string) ([]byte, error) { return state.Key(cell, version) }, nil
}

// change is the change of this command line. Its parts that need an operation of their own name them.
func (d *desk) change() directory.Change {
	return directory.Change{Operation: d.operation, By: d.by, Why: d.why, At: d.at}
}

// changePart is the change with a name added, for a command that makes several.
func (d *desk) changePart(part string) directory.Change {
	c := d.change()
	c.Operation += " " + part
	return c
}

// note keeps the record of a read by hand.
func (d *desk) note(ctx context.Context, tenant, what string) error {
	c := d.change()
	c.Operation = "cli-" + rand.Text() // a read is another one each time
	return d.NoteAccess(ctx, tenant, what, c)
}

// noteListing keeps the record that tenants were listed by hand, before the first is shown.
func (d *desk) noteListing(ctx context.Context, what ...string) error {
	c := d.change()
	c.Operation = "cli-" + rand.Text()
	return d.NoteListing(ctx, strings.Join(what, " "), c)
}

// explain turns the directory's refusals into exit statuses, and says how to go on after a failure.
func (d *desk) explain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, errNoKey) {
		return hint(usagef("%w", err), "give the cell's placement key with --key-file FILE")
	}
	explained := directoryError(err)
	if exit := (*exitError)(nil); errors.As(explained, &exit) {
		return explained
	}
	switch {
	case errors.Is(err, boltfile.ErrDamaged):
		return err // it says what to do
	case d.reads:
		return hint(err, "nothing was changed; the same command may be given again")
	}
	return hint(err, "whether it was done is not known; the same command with --operation %s finishes it, or finds it done", quote(d.operation))
}

// refusals are the errors of the directory and of its file that have an exit status, with what to do next
// where the error does not say it.
var refusals = []struct {
	is   error
	code int
	next string
}{
	{directory.ErrNoHeadroom, ExitFound, "cellwall cell headroom shows what is left, and which cells are closed; cell open CELL --capacity N opens one, or gives it more"},
	{directory.ErrNoSlot, ExitFound, ""},
	{directory.ErrSlotTaken, ExitFound, "give the command again"},
	{directory.ErrReused, ExitFound, "leave --operation out: it repeats a change whose answer was lost, and this is another"},
	{directory.ErrStale, ExitFound, "somebody changed it first: look at what stands, and give the command again if it is still to be done"},
	{directory.ErrExists, ExitFound, "cellwall tenant show has where it is"},
	{directory.ErrCellExists, ExitFound, "cellwall cell headroom lists the cells"},
	{directory.ErrZones, ExitFound, "give the fleet's cell the zones that it had, in their order, and new ones after them; a cell of other zones is another cell"},
	{directory.ErrState, ExitFound, "cellwall tenant show has its state; a sign-up is finished by its tenant add, a move by the move"},
	{directory.ErrInUse, ExitFound, "cellwall topology show CELL has who is left on it; topology migrate CELL brings them to the newest"},
	{directory.ErrRetired, ExitFound, "cellwall topology show CELL lists those that are live"},
	{directory.ErrHome, ExitFound, ""},
	{directory.ErrLineBreak, ExitFound, "write JSON lines, which carry every id: a FILE.jsonl, or --format jsonl"},
	{directory.ErrNewer, ExitFound, ""},
	{boltfile.ErrLocked, ExitFound, ""},
	{directory.ErrNotFound, ExitUsage, "cellwall tenant list has those who are; ids are compared byte by byte"},
	{directory.ErrUnknownCell, ExitUsage, "cellwall cell headroom lists those that it knows; cell open and topology publish add one of the fleet"},
	{directory.ErrUnknownTopology, ExitUsage, "cellwall topology show CELL lists those that there are"},
	{directory.ErrKey, ExitUsage, "give the key that the cell had when that topology was published"},
	{directory.ErrService, ExitUsage, "name that service's fleet with --fleet, or this one's directory with --directory"},
	{directory.ErrInvalid, ExitUsage, ""},
	{directory.ErrTooLarge, ExitUsage, ""},
}

// directoryError gives an error of the directory its exit status, and says what to do next.
func directoryError(err error) error {
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		return err
	}
	for _, r := range refusals {
		if errors.Is(err, r.is) {
			return &exitError{r.code, err, r.next}
		}
	}
	return err
}
