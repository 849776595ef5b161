package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/template"
)

// Found is a stack as CloudFormation has it.
type Found struct {
	Status    rollout.StackStatus
	Said      string // CloudFormation's own word, such as UPDATE_COMPLETE; "" where there is no stack
	Hash      string // of the template that it was last deployed with, see Canonical
	Tags      map[string]string
	Protected bool      // has termination protection
	Began     time.Time // the last change, whether it succeeded or not
}

// Preparer makes change sets.
type Preparer interface {
	// Prepare makes a change set of that name for each of the stacks, which are ids of the assembly in dir, publishes what
	// they need, and executes nothing.
	Prepare(ctx context.Context, dir, set string, stacks []string) error
}

// CloudFormation reads stacks and executes change sets. Names are those of stacks.
type CloudFormation interface {
	// Read returns the stacks in the order of their names. An error is an unknown status.
	Read(ctx context.Context, at Place, stacks []string) ([]Found, error)
	// Prepared sees that each of the stacks has the change set, and that it can be executed or is empty.
	Prepared(ctx context.Context, at Place, set string, stacks []string) error
	// Execute executes the change set of each of the stacks, and returns when all have settled. permit is called
	// immediately before the first. A set that is empty is none; an error says which stacks failed, and why.
	Execute(ctx context.Context, at Place, set string, stacks []string, permit func(context.Context) error) error
}

// Stacks are the stacks of a fleet's cells, for one rollout. It is safe for concurrent use.
type Stacks struct {
	fleet    *fleet.Fleet
	digest   string
	folder   *Folder
	preparer Preparer
	cloud    CloudFormation

	mu      sync.Mutex
	indices map[string]*Assembly // by digest, as they were first read
	hashes  map[string]string    // of templates, by digest and file: of those that were needed, since hundreds may be kept
	former  map[string]string    // by cell and stage, what it ran before the rollout; see Former
	open    *use
}

var _ run.Stacks = (*Stacks)(nil)

// NewStacks returns the stacks of a fleet for a rollout of the digest, which must be in the folder. Close it.
func NewStacks(f *fleet.Fleet, digest string, folder *Folder, p Preparer, c CloudFormation) (*Stacks, error) {
	own, err := folder.Get(digest)
	if err != nil {
		return nil, err
	}
	// What the rollout's own stacks are compared with for days is what was proved now, and not what lies there later.
	for i := range own.stacks {
		own.stacks[i].root = template.Node{} // which Check alone needs, and which is large
	}
	return &Stacks{fleet: f, digest: digest, folder: folder, preparer: p, cloud: c, indices: map[string]*Assembly{digest: own}, hashes: map[string]string{},
		former: map[string]string{}, open: newUse(folder)}, nil
}

// Close takes away what was copied to deploy from.
func (s *Stacks) Close() error { return s.open.close() }

// Read implements run.Stacks. A stage of which some stacks are missing has the status of the others, and no digest that
// needs those.
func (s *Stacks) Read(ctx context.Context, cell, stage, wentBack string) (run.Reading, error) {
	unknown := run.Reading{Stack: rollout.Unknown}
	own, err := s.stage(s.digest, cell, stage)
	if err != nil {
		return unknown, err
	}
	known := map[string]Found{}
	_, ok, err := s.compare(ctx, own, known)
	if err != nil {
		return unknown, err
	}
	read := reading(own, known, wentBack)
	if ok {
		// A stack that went back to this very template, before the rollout and from another, needs no change; one whose
		// change to it failed has another template.
		if read.Stack == rollout.RolledBack {
			read.Stack, read.Why = rollout.Complete, ""
		}
		read.Digest = s.digest
		return read, nil
	}
	kept, err := s.folder.List()
	if err != nil {
		return unknown, err
	}
	if read.Stack == rollout.Absent || read.Stack == rollout.InProgress {
		return read, nil
	}
	// Several assemblies may be the same in this stage, and their order in the folder changes when one is kept again or the
	// folder is copied. What went back to one of them must not be taken for another.
	digests := []string{s.formerOf(cell, stage)}
	for _, k := range kept {
		digests = append(digests, k.Digest)
	}
	for _, digest := range digests {
		other, err := s.stage(digest, cell, stage)
		if err != nil || digest == s.digest { // one that cannot be read is none that is known
			continue
		}
		if _, ok, err := s.compare(ctx, other, known); err != nil {
			return unknown, err
		} else if ok {
			read.Digest = digest
			return read, nil
		}
	}
	return read, nil
}

// reading is the worst status of stacks that were read, which of them are to blame for it, and the stacks that are rolled
// back: each as a hash of its name and of the time at which that change began. One that is in wentBack already was so
// before, and is as good as complete.
func reading(stacks []Stack, known map[string]Found, wentBack string) run.Reading {
	r := run.Reading{Stack: rollout.Absent}
	var all, worst []string
	for _, x := range stacks {
		f := known[x.Name]
		if f.Status == rollout.RolledBack && !f.Began.IsZero() {
			sum := sha256.Sum256(fmt.Appendf(nil, "%q %d", x.Name, f.Began.UnixNano()))
			one := hex.EncodeToString(sum[:8])
			if all = append(all, one); slices.Contains(strings.Split(wentBack, " "), one) {
				f.Status = rollout.Complete
			}
		}
		before := r.Stack
		if r.Stack = worse(before, f.Status); r.Stack != before {
			worst = nil
		}
		if r.Stack == worse(rollout.Absent, f.Status) {
			worst = append(worst, fmt.Sprintf("stack %s in %s is %s", x.Name, x.Place, f.Said))
		}
	}
	r.WentBack = strings.Join(all, " ")
	if r.Stack != rollout.Absent && r.Stack != rollout.Complete {
		const most = 3
		if more := len(worst) - most; more > 0 {
			worst = append(worst[:most], fmt.Sprintf("and %d more", more))
		}
		r.Why = strings.Join(worst, ", ")
	}
	return r
}

// compare reads stacks that are not in known yet, and tells the worst status of all and whether all are as planned.
func (s *Stacks) compare(ctx context.Context, stacks []Stack, known map[string]Found) (rollout.StackStatus, bool, error) {
	if len(stacks) == 0 {
		return rollout.Absent, false, nil
	}
	var ask []string
	for _, x := range stacks {
		if _, ok := known[x.Name]; !ok {
			ask = append(ask, x.Name)
		}
	}
	if len(ask) > 0 {
		found, err := s.cloud.Read(ctx, stacks[0].Place, ask)
		if err == nil && len(found) != len(ask) {
			err = fmt.Errorf("%d stacks were asked for and %d came", len(ask), len(found))
		}
		if err != nil {
			return rollout.Unknown, false, err
		}
		for i, name := range ask {
			known[name] = found[i]
		}
	}
	status, same := rollout.Absent, true
	for _, x := range stacks {
		f := known[x.Name]
		status = worse(status, f.Status)
		same = same && f.runs(x)
	}
	return status, same, nil
}

// runs says that a stack was deployed with the template and the tags of the assembly's. Tags that others set do not
// count.
func (f Found) runs(x Stack) bool {
	if f.Hash == "" || f.Hash != x.Hash {
		return false
	}
	for k, v := range x.Tags {
		if got, ok := f.Tags[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// order has the worst status last. A stage of which one stack is under way is under way, whatever became of the others:
// nothing is begun, and nothing judged, before all have settled.
var order = []rollout.StackStatus{rollout.Absent, rollout.Complete, rollout.RolledBack, rollout.Failed, rollout.Stuck, rollout.InProgress, rollout.Unknown}

func worse(a, b rollout.StackStatus) rollout.StackStatus {
	i, j := slices.Index(order, a), slices.Index(order, b)
	if i < 0 || j < 0 {
		return rollout.Unknown
	}
	return order[max(i, j)]
}

// Prepare implements run.Stacks.
func (s *Stacks) Prepare(ctx context.Context, cell, stage, digest string, fencing uint64) error {
	return s.prepare(ctx, cell, stage, digest, fencing, false)
}

// prepare makes change sets. On the way back termination protection may become what it was with that assembly.
func (s *Stacks) prepare(ctx context.Context, cell, stage, digest string, fencing uint64, back bool) error {
	stacks, err := s.stage(digest, cell, stage)
	if err != nil {
		return err
	}
	if len(stacks) == 0 {
		return fmt.Errorf("%w: %s has no stack of cell %s, stage %s", ErrRefused, digest, cell, stage)
	}
	at, names := stacks[0].Place, namesOf(stacks)
	found, err := s.cloud.Read(ctx, at, names)
	if err != nil {
		return err
	}
	if err := untouched(stacks, found, back); err != nil {
		return err
	}
	dir, err := s.open.dir(ctx, digest)
	if err != nil {
		return err
	}
	ids := make([]string, len(stacks))
	for i, x := range stacks {
		ids[i] = x.ID
	}
	set := setName(digest, fencing)
	if err := s.preparer.Prepare(ctx, dir, set, ids); err != nil {
		return err
	}
	return s.cloud.Prepared(ctx, at, set, names) // the command line's word is not taken for it
}

// untouched sees that the CDK's command line would change nothing while it prepares: it deletes stacks that could not
// be created, and sets termination protection, before it makes a change set (aws-cdk 2.1148.1, deployStack).
func untouched(stacks []Stack, found []Found, back bool) error {
	if len(found) != len(stacks) {
		return fmt.Errorf("%d stacks were asked for and %d came", len(stacks), len(found))
	}
	var all []error
	for i, f := range found {
		switch {
		case f.Status != rollout.Absent && f.Status != rollout.Complete && f.Status != rollout.RolledBack:
			all = append(all, fmt.Errorf("stack %s is %s (%s): nothing is prepared for it", stacks[i].Name, f.Status, f.Said))
		case !back && f.Status != rollout.Absent && f.Protected != stacks[i].Protected:
			all = append(all, fmt.Errorf("stack %s has termination protection: %t, and the assembly wants %t: the CDK's command line would switch it while it prepares; switch it first", stacks[i].Name, f.Protected, stacks[i].Protected))
		}
	}
	return errors.Join(all...)
}

// Execute implements run.Stacks.
func (s *Stacks) Execute(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error {
	stacks, err := s.stage(digest, cell, stage)
	if err != nil {
		return err
	}
	if len(stacks) == 0 {
		return fmt.Errorf("%w: %s has no stack of cell %s, stage %s", ErrRefused, digest, cell, stage)
	}
	return s.cloud.Execute(ctx, stacks[0].Place, setName(digest, fencing), namesOf(stacks), permit)
}

// Restore implements run.Stacks.
func (s *Stacks) Restore(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error {
	s.Former(cell, stage, digest)
	if err := s.prepare(ctx, cell, stage, digest, fencing, true); err != nil {
		return err
	}
	return s.Execute(ctx, cell, stage, digest, fencing, permit)
}

// Others says which stacks of the whole service, which no rollout deploys, do not run the rollout's digest; one line
// each.
func (s *Stacks) Others(ctx context.Context) ([]string, error) {
	a, err := s.index(s.digest)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, x := range a.stacks {
		if x.Service != s.fleet.Service || x.Cell != "" {
			continue
		}
		status, same := rollout.Unknown, false
		if x.Hash, err = s.hash(a, x); err == nil {
			status, same, err = s.compare(ctx, []Stack{x}, map[string]Found{})
		}
		switch {
		case err != nil:
			lines = append(lines, fmt.Sprintf("stack %s in %s: %v", x.Name, x.Place, err))
		case status != rollout.Complete:
			lines = append(lines, fmt.Sprintf("stack %s in %s is %s: a rollout does not deploy it", x.Name, x.Place, status))
		case !same:
			lines = append(lines, fmt.Sprintf("stack %s in %s is not on this assembly: a rollout does not deploy it; cdk deploy --app DIR --exclusively %s does", x.Name, x.Place, x.ID))
		}
	}
	return lines, nil
}

// stage is the stacks of a stage in the assembly of a digest, with those that the fleet places there.
func (s *Stacks) stage(digest, cell, stage string) ([]Stack, error) {
	c, ok := s.fleet.Cell(cell)
	if !ok {
		return nil, fmt.Errorf("%w: the fleet has no cell %s", ErrRefused, cell)
	}
	a, err := s.index(digest)
	if err != nil {
		return nil, err
	}
	var stacks []Stack
	for _, x := range a.stacks {
		if x.Service != s.fleet.Service || x.Cell != cell || stageOf(s.fleet, c, x) != stage {
			continue
		}
		if x.Place != (Place{c.Account, c.Region}) {
			return nil, fmt.Errorf("%w: stack %s lies in %s, and cell %s in %s/%s", ErrRefused, x.Name, x.Place, cell, c.Account, c.Region)
		}
		if x.Hash, err = s.hash(a, x); err != nil {
			return nil, err
		}
		stacks = append(stacks, x)
	}
	return stacks, nil
}

// Former says what a stage ran before the rollout, as it was read and journalled then. Of several assemblies that are
// the same in that stage, Read names this one.
func (s *Stacks) Former(cell, stage, digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.former[cell+"/"+stage] = digest
}

func (s *Stacks) formerOf(cell, stage string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.former[cell+"/"+stage]
}

func (s *Stacks) index(digest string) (*Assembly, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.indices[digest]; a != nil {
		return a, nil
	}
	a, err := s.folder.index(digest)
	if err != nil {
		return nil, err
	}
	s.indices[digest] = a
	return a, nil
}

// hash is that of a stack's template, read once.
func (s *Stacks) hash(a *Assembly, x Stack) (string, error) {
	if x.Hash != "" {
		return x.Hash, nil
	}
	key := a.Digest + " " + x.file
	s.mu.Lock()
	hash := s.hashes[key]
	s.mu.Unlock()
	if hash != "" {
		return hash, nil
	}
	hash, err := a.hash(x)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hashes[key] = hash
	return hash, nil
}

func namesOf(stacks []Stack) []string {
	names := make([]string, len(stacks))
	for i, x := range stacks {
		names[i] = x.Name
	}
	return names
}

// setName is the name of change sets to a digest under a fencing number.
func setName(digest string, fencing uint64) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return "cellwall-" + hex[:min(12, len(hex))] + "-" + strconv.FormatUint(fencing, 10)
}
