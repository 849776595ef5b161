package localcell

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// A worker's version is the digest of its one file, sha256: and 64 hexadecimal digits. The file of each version that
// ran or was added lies in the state directory, so that what runs does not change with a build, and that a shard can go
// back to what it ran before.
const (
	dirWorkers    = "workers"
	fileVersions  = "versions.json" // which shard runs which version, where a deployment said so
	versionPrefix = "sha256:"
	workerPrefix  = "sha256-"      // of a version's file; a colon is awkward in names
	maxWorker     = int64(1) << 30 // bytes of one
	keepWorkers   = 8              // versions that no shard is to run and that stay nevertheless, the latest ones
	incoming      = ".incoming-"   // of a file that is being copied
	workerMode    = fs.FileMode(0o700)
)

// Errors about versions of workers. They come wrapped.
var (
	// ErrWorker means that a file was named which is no worker.
	ErrWorker = errors.New("no worker to start")
	// ErrNoVersion means that the state directory does not have that version of the worker, or that its file there is not
	// what it was.
	ErrNoVersion = errors.New("no such version of the worker in the state directory")
)

var (
	versionForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	workerForm  = regexp.MustCompile(`^sha256-[0-9a-f]{64}$`)
)

// versionFile is the path of a version's file, which may not be there. ErrNoVersion when that is not the form of a version.
func (d Dir) versionFile(version string) (string, error) {
	if !versionForm.MatchString(version) {
		return "", fmt.Errorf("%w: a version is sha256: and 64 hexadecimal digits, not %.80q", ErrNoVersion, version)
	}
	return filepath.Join(d.path, dirWorkers, workerPrefix+strings.TrimPrefix(version, versionPrefix)), nil
}

// AddWorker copies a worker's file into the state directory, whose cell may run meanwhile, and returns its version.
// ErrWorker when that is not an executable file; ErrNotState when d is no cell's directory.
func (d Dir) AddWorker(file string) (version string, err error) {
	if unused, err := d.unused(); err != nil {
		return "", err
	} else if unused {
		return "", fmt.Errorf("%w (%s)", ErrNotRunning, d)
	}
	return d.addWorker(file, (*os.File).Sync)
}

// addWorker is AddWorker with what makes the copy outlast the machine.
func (d Dir) addWorker(file string, sync func(*os.File) error) (version string, err error) {
	in, err := openWorker(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	folder := d.file(dirWorkers)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("keep the worker: %w", err)
	}
	temp, err := os.CreateTemp(folder, incoming) // mode 0600
	if err != nil {
		return "", fmt.Errorf("keep the worker: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep the worker %s: %w", file, errors.Join(err, os.Remove(temp.Name())))
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(temp, sum), io.LimitReader(in, maxWorker+1))
	switch {
	case err != nil:
	case n == 0:
		err = fmt.Errorf("%w: it is empty", ErrWorker)
	case n > maxWorker:
		err = fmt.Errorf("%w: it is larger than %d MB", ErrWorker, maxWorker>>20)
	default:
		err = errors.Join(temp.Chmod(workerMode), sync(temp))
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", err
	}
	version = versionPrefix + hex.EncodeToString(sum.Sum(nil))
	path, err := d.versionFile(version)
	if err != nil {
		return "", err
	}
	// Whatever lay there under that name is as good, or was damaged. One that runs goes on with what it has.
	return version, os.Rename(temp.Name(), path)
}

// openWorker opens an executable file, and does not wait for what is none.
func openWorker(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWorker, err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0) {
		err = fmt.Errorf("%s is not an executable file", file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrWorker, err), f.Close())
	}
	return f, nil
}

// HasWorker says whether the version's file is in the state directory, and is what its name says. ErrNoVersion when not.
func (d Dir) HasWorker(version string) error {
	path, err := d.versionFile(version)
	if err != nil {
		return err
	}
	f, err := openWorker(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s; name the worker's file to add it", ErrNoVersion, version)
	} else if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoVersion, version, err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxWorker+1)); err != nil {
		return fmt.Errorf("read the worker %s: %w", version, err)
	}
	if got := versionPrefix + hex.EncodeToString(sum.Sum(nil)); got != version {
		return fmt.Errorf("%w: the file of %s was changed, and its digest is %s; name the worker's file to add it again", ErrNoVersion, version, got)
	}
	return nil
}

// deployed is the file that says which shard is to run which version.
type deployed struct {
	// Fencing is the highest number of a lease by which somebody deployed: whoever has a lower one has lost it.
	Fencing uint64            `json:"fencing,omitempty"`
	Shards  map[string]string `json:"shards"` // version by CELL/SHARD
}

// readDeployed is what was deployed in d, nothing when that was never done.
func (d Dir) readDeployed() (deployed, error) {
	var v deployed
	if err := d.readJSON(fileVersions, &v); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	for shard, version := range v.Shards {
		if !versionForm.MatchString(version) {
			return v, fmt.Errorf("%w: %s says that %.80q runs %.80q", ErrDamaged, d.file(fileVersions), shard, version)
		}
	}
	if v.Shards == nil {
		v.Shards = map[string]string{}
	}
	return v, nil
}

// Deployed counts the shards of the layout that run what was deployed to them, whatever worker the layout names.
func (d Dir) Deployed(l Layout) (int, error) {
	v, err := d.readDeployed()
	n := 0
	for _, p := range l.Cells {
		for _, shard := range p.Shards() {
			if v.Shards[p.Cell+"/"+shard] != "" {
				n++
			}
		}
	}
	return n, err
}

// addWorkers keeps the workers that the layout names, writes their versions into it, and lets go of versions that
// nobody is to run any more.
func (d Dir) addWorkers(l *Layout) error {
	kept := map[string]string{}
	for i := range l.Cells {
		p := &l.Cells[i]
		if kept[p.Worker] == "" {
			// The next start copies it anew, so nobody waits for the disk.
			version, err := d.addWorker(p.Worker, func(*os.File) error { return nil })
			if err != nil {
				return err
			}
			kept[p.Worker] = version
		}
		p.Version = kept[p.Worker]
	}
	v, err := d.readDeployed()
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, version := range kept {
		needed[version] = true
	}
	for _, version := range v.Shards {
		needed[version] = true
	}
	return d.pruneWorkers(needed)
}

// pruneWorkers removes the versions that are not needed, but for the latest, and what was copied half.
func (d Dir) pruneWorkers(needed map[string]bool) error {
	type old struct {
		name string
		info fs.FileInfo
	}
	var rest []old
	entries, err := os.ReadDir(d.file(dirWorkers))
	if err != nil {
		return fmt.Errorf("look at the versions of the worker: %w", err)
	}
	for _, e := range entries {
		digest := strings.TrimPrefix(e.Name(), workerPrefix)
		info, err := e.Info()
		if !workerForm.MatchString(e.Name()) || needed[versionPrefix+digest] || err != nil {
			continue
		}
		rest = append(rest, old{e.Name(), info})
	}
	slices.SortFunc(rest, func(a, b old) int {
		return cmp.Or(b.info.ModTime().Compare(a.info.ModTime()), strings.Compare(a.name, b.name))
	})
	var errs []error
	for _, o := range rest[min(keepWorkers, len(rest)):] {
		errs = append(errs, d.remove(filepath.Join(dirWorkers, o.name)))
	}
	return errors.Join(errs...)
}

// purgeWorkers removes all versions, and the folder unless somebody else's files are in it.
func (d Dir) purgeWorkers() error {
	entries, err := os.ReadDir(d.file(dirWorkers))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if workerForm.MatchString(e.Name()) || strings.HasPrefix(e.Name(), incoming) {
			errs = append(errs, d.remove(filepath.Join(dirWorkers, e.Name())))
		}
	}
	_ = os.Remove(d.file(dirWorkers))
	return errors.Join(errs...)
}

// versions are those that the supervisor's shards are to run.
type versions struct {
	dir Dir

	mu    sync.Mutex
	is    deployed
	whole map[string]bool // versions whose files were compared with their digests
}

func (d Dir) versions() (*versions, error) {
	is, err := d.readDeployed()
	return &versions{dir: d, is: is, whole: map[string]bool{}}, err
}

// of is the version that a shard is to run, and whether that was deployed to it.
func (v *versions) of(d *door) (version string, was bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version := v.is.Shards[d.id()]; version != "" {
		return version, true
	}
	return d.cell.plan.Version, false
}

// file is the path of a version's file, compared with its digest once.
func (v *versions) file(version string) (string, error) {
	path, err := v.dir.versionFile(version)
	if err != nil {
		return "", err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.whole[version] {
		if err := v.dir.HasWorker(version); err != nil {
			return "", err
		}
		v.whole[version] = true
	}
	return path, nil
}

// put writes down that a shard is to run a version. Nobody runs what is not written down.
func (v *versions) put(d *door, version string) error {
	return v.change(func(is *deployed) { is.Shards[d.id()] = version })
}

func (v *versions) change(f func(*deployed)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := deployed{v.is.Fencing, make(map[string]string, len(v.is.Shards)+1)}
	for shard, version := range v.is.Shards {
		next.Shards[shard] = version
	}
	f(&next)
	if err := v.dir.writeJSON(fileVersions, next); err != nil {
		return err
	}
	v.is = next
	return nil
}

// fence refuses a number below the highest that was shown, and remembers one that is higher. 0 is nobody's.
func (v *versions) fence(number uint64) error {
	v.mu.Lock()
	highest := v.is.Fencing
	v.mu.Unlock()
	switch {
	case number == 0 || number == highest:
		return nil
	case number < highest:
		return fmt.Errorf("%w: its number is %d, and somebody has shown %d", errFenced, number, highest)
	}
	return v.change(func(is *deployed) { is.Fencing = max(is.Fencing, number) })
}
