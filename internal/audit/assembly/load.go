package assembly

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// Bounds on what is read. CloudFormation itself takes templates of 1 MB.
const (
	maxFile   = 64 << 20 // bytes of one file
	maxTotal  = 1 << 30  // bytes of all files, each as often as it is used
	maxYAML   = 8 << 20  // bytes of one YAML file: its parser needs some hundred times as much memory
	maxStacks = 10_000   // stacks of one audit
	maxNested = 16       // assemblies or stacks inside each other
	maxFaults = 50       // faults that are reported
	maxPairs  = 1 << 20  // stacks of one artifact that wait for those of another
)

// ErrMalformed is behind every error that the input's content is to blame for.
var ErrMalformed = errors.New("not a cloud assembly or a directory of templates that can be read")

// fault is an error in one file.
type fault struct {
	file string
	err  error
}

func (f *fault) Error() string { return f.file + ": " + f.err.Error() }
func (f *fault) Unwrap() error { return f.err }
func (f *fault) Is(target error) bool {
	return target == ErrMalformed
}

// Load reads the cloud assembly or the bare templates in the root of fsys. All faults of content are
// reported at once and are ErrMalformed; an error of the file system itself comes as it is.
func Load(fsys fs.FS) (audit.Input, error) {
	l := loader{fsys: fsys, dirs: map[string]bool{}, assets: map[string]map[string]string{}}
	_, err := fs.Stat(fsys, "manifest.json")
	switch {
	case err == nil:
		l.assembly(".", 0)
		if len(l.in.Stacks) == 0 && len(l.faults) == 0 && l.broken == nil {
			l.fail("manifest.json", errors.New(l.noStacks()))
		}
		// the audit takes each acknowledgement once, and whatever stack it comes with: its path says what it is about
		if acks := l.acknowledged(); len(l.in.Stacks) > 0 {
			l.in.Stacks[0].Acknowledged = append(l.in.Stacks[0].Acknowledged, acks...)
		}
	case errors.Is(err, fs.ErrNotExist):
		l.bare()
	case errors.Is(err, fs.ErrPermission):
		l.broken = err
	default:
		l.fail("manifest.json", err)
	}
	if l.broken != nil {
		return audit.Input{}, l.broken
	}
	if len(l.faults) > 0 {
		return audit.Input{}, errors.Join(l.faults...)
	}
	return l.in, nil
}

type loader struct {
	fsys   fs.FS
	in     audit.Input
	dirs   map[string]bool              // assemblies seen
	assets map[string]map[string]string // by directory: file behind each asset hash
	faults []error
	broken error  // of the file system
	total  int64  // bytes read
	last   []byte // of the file read last, as far as it was
}

func (l *loader) fail(file string, err error) {
	switch {
	case len(l.faults) < maxFaults:
		l.faults = append(l.faults, &fault{file, err})
	case len(l.faults) == maxFaults:
		l.faults = append(l.faults, &fault{file, errors.New("more faults; these are enough to begin with")})
	}
}

// read reads a file that a manifest or a directory names.
func (l *loader) read(file string, limit int64) ([]byte, bool) {
	l.last = nil
	if l.broken != nil {
		return nil, false
	}
	if !fs.ValidPath(file) {
		l.fail(file, errors.New("the path leaves the directory"))
		return nil, false
	}
	if info, err := fs.Stat(l.fsys, file); err == nil && !info.Mode().IsRegular() { // to open a pipe would wait for its writer
		l.fail(file, errors.New("not a regular file"))
		return nil, false
	}
	f, err := l.fsys.Open(file)
	if errors.Is(err, fs.ErrPermission) { // the machine's fault; a name that leads nowhere is the manifest's
		l.broken = err
		return nil, false
	}
	if err != nil {
		l.fail(file, err)
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		l.broken = err
		return nil, false
	}
	if !info.Mode().IsRegular() {
		l.fail(file, errors.New("not a regular file"))
		return nil, false
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		l.broken = fmt.Errorf("%s: %w", file, err)
		return nil, false
	}
	l.last = data
	if l.total += int64(len(data)); l.total > maxTotal {
		l.broken = &fault{file, fmt.Errorf("more than %d MiB in all", maxTotal>>20)}
		return nil, false
	}
	if int64(len(data)) > limit {
		l.fail(file, fmt.Errorf("larger than %d MiB, the most that is read of one file of its kind", limit>>20))
		return nil, false
	}
	return data, true
}

// under joins a name from a manifest to its directory; what leaves the whole input is no valid path
// afterwards and is refused where it is opened.
func under(dir, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(dir, name)
}

func (l *loader) assembly(dir string, depth int) {
	file := path.Join(dir, "manifest.json")
	if depth > maxNested {
		l.fail(file, fmt.Errorf("assemblies nested deeper than %d", maxNested))
		return
	}
	if l.dirs[dir] {
		l.fail(file, errors.New("an assembly holds itself, or two artifacts are the same one"))
		return
	}
	l.dirs[dir] = true
	data, ok := l.read(file, maxFile)
	if !ok {
		return
	}
	var m manifest
	if err := decodeStrict(data, &m); err != nil {
		l.fail(file, err)
		return
	}
	if m.Artifacts == nil {
		l.fail(file, errors.New("no artifacts: not the manifest of a cloud assembly"))
		return
	}
	for _, missing := range m.Missing {
		l.in.Notes = append(l.in.Notes, audit.Note{File: file, What: "the context " + missing.Key + " is missing: CDK put a dummy value in its place"})
	}
	if note := versionNote(m.Version); note != "" {
		l.in.Notes = append(l.in.Notes, audit.Note{File: file, What: note})
	}
	ids := slices.Sorted(maps.Keys(m.Artifacts))
	l.assets[dir] = map[string]string{}
	for _, id := range ids {
		if a := m.Artifacts[id]; a.Type == artifactAssets {
			l.assetManifest(dir, a.Properties.File)
		}
	}
	within := map[string][]int{} // by artifact: the stacks in it, as indices into l.in.Stacks
	for _, id := range ids {
		before := len(l.in.Stacks)
		switch a := m.Artifacts[id]; a.Type {
		case artifactStack:
			l.stack(dir, file, id, a)
		case artifactAssembly:
			sub := under(dir, a.Properties.DirectoryName)
			if a.Properties.DirectoryName == "" || !fs.ValidPath(sub) {
				l.fail(file, fmt.Errorf("artifact %q: directoryName %q leaves the directory", id, a.Properties.DirectoryName))
				break
			}
			l.assembly(sub, depth+1)
		default:
			if !otherArtifacts[a.Type] {
				l.in.Notes = append(l.in.Notes, audit.Note{File: file, What: fmt.Sprintf("artifact %q is of the unknown type %q: what it deploys was not seen", id, a.Type)})
			}
		}
		for i := before; i < len(l.in.Stacks); i++ {
			if l.in.Stacks[i].Nested == nil { // a nested stack is deployed by the one that holds it
				within[id] = append(within[id], i)
			}
		}
	}
	for _, id := range ids {
		for _, other := range m.Artifacts[id].Dependencies {
			if len(within[id])*len(within[other]) > maxPairs {
				l.in.Notes = append(l.in.Notes, audit.Note{File: file, What: fmt.Sprintf("artifact %q waits for %q: too many stacks in both to say which waits for which", id, other)})
				continue
			}
			for _, i := range within[id] {
				for _, j := range within[other] {
					l.in.Stacks[i].After = append(l.in.Stacks[i].After, audit.StackID{Name: l.in.Stacks[j].Name, File: l.in.Stacks[j].File})
				}
			}
		}
	}
}

// noStacks says why an assembly is nothing that can be audited: an audit of nothing must not pass.
func (l *loader) noStacks() string {
	why := "no stack in the whole assembly: nothing that can be audited"
	for _, n := range l.in.Notes {
		why += "; " + n.What
	}
	return why
}

func (l *loader) assetManifest(dir, name string) {
	file := under(dir, name)
	data, ok := l.read(file, maxFile)
	if !ok {
		return
	}
	var m assetManifest
	if err := decodeStrict(data, &m); err != nil {
		l.fail(file, err)
		return
	}
	for hash, f := range m.Files {
		l.assets[dir][hash] = f.Source.Path
	}
}

func (l *loader) stack(dir, manifestFile, id string, a artifact) {
	fail := func(err error) { l.fail(manifestFile, fmt.Errorf("artifact %q: %w", id, err)) }
	account, region, err := environment(a.Environment)
	if err != nil {
		fail(err)
		return
	}
	if a.Properties.TemplateFile == "" {
		fail(errors.New("no templateFile"))
		return
	}
	if a.MetadataFile != "" && a.Metadata == nil {
		file := under(dir, a.MetadataFile)
		data, ok := l.read(file, maxFile)
		if !ok {
			return
		}
		if err := decodeStrict(data, &a.Metadata); err != nil {
			l.fail(file, err)
			return
		}
	}
	s := audit.Stack{
		Name: a.Properties.StackName, Path: a.DisplayName, Account: account, Region: region,
		Tags: a.Properties.Tags, Values: a.Properties.Parameters,
		File: under(dir, a.Properties.TemplateFile),
	}
	s.Paths, s.Acknowledged = readMetadata(a.Metadata)
	if s.Name == "" {
		s.Name = id
	}
	// displayName is "CELL/core (orders-eu-1-core)" where path and stack name differ
	if p, _, ok := strings.Cut(s.Path, " ("); ok {
		s.Path = p
	}
	l.add(dir, s, 0)
}

// add reads a stack's template and the nested stacks in it.
func (l *loader) add(dir string, s audit.Stack, depth int) {
	if len(l.in.Stacks) >= maxStacks {
		l.fail(s.File, fmt.Errorf("more than %d stacks", maxStacks))
		return
	}
	t, ok := l.template(s.File)
	if !ok {
		return
	}
	s.Template, s.Size = t, len(l.last)
	l.in.Stacks = append(l.in.Stacks, s)
	for i := range t.Resources {
		r := &t.Resources[i]
		at := dir
		file, ok := l.local(dir, r)
		if ok {
			at = path.Dir(file)
		} else if r.Type == "AWS::CloudFormation::Stack" {
			file, ok = l.nested(dir, r)
		}
		if !ok {
			continue // the audit names it as unread
		}
		if depth+1 > maxNested {
			l.fail(s.File, fmt.Errorf("stacks nested deeper than %d", maxNested))
			return
		}
		child := audit.Stack{
			Name: s.Name + "/" + r.ID, Path: s.Path, File: file, Account: s.Account, Region: s.Region,
			Tags: s.Tags, Nested: &audit.NestedIn{Name: s.Name, File: s.File, Resource: r.ID},
		}
		l.add(at, child, depth+1)
	}
}

var assetHash = regexp.MustCompile(`[0-9a-f]{64}`)

// nested finds the template of a nested stack among the assets.
func (l *loader) nested(dir string, r *template.Resource) (string, bool) {
	name := r.Metadata.GetString("aws:asset:path")
	if name == "" {
		url, _ := r.Properties.Get("TemplateURL")
		text, err := url.MarshalJSON()
		if err != nil {
			return "", false
		}
		name = l.assets[dir][string(assetHash.Find(text))]
	}
	file := under(dir, name)
	if name == "" || !fs.ValidPath(file) {
		return "", false
	}
	_, err := fs.Stat(l.fsys, file)
	return file, err == nil
}

func (l *loader) template(file string) (template.Template, bool) {
	n, ok := l.decode(file)
	if !ok {
		return template.Template{}, false
	}
	t, err := template.Parse(n)
	if err != nil {
		l.fail(file, err)
		return template.Template{}, false
	}
	return t, true
}

// decode reads a JSON or YAML file: JSON by its ending or by its first byte.
func (l *loader) decode(file string) (template.Node, bool) {
	limit := int64(maxFile)
	yaml := isYAML(file)
	if yaml {
		limit = maxYAML
	}
	data, ok := l.read(file, limit)
	if !ok {
		return template.Node{}, false
	}
	if path.Ext(file) != ".json" {
		yaml = !strings.HasPrefix(strings.TrimLeft(string(data[:min(len(data), 1024)]), " \t\r\n\xef\xbb\xbf"), "{")
	}
	decode := template.DecodeJSON
	if yaml {
		if len(data) > maxYAML {
			l.fail(file, fmt.Errorf("larger than %d MiB, the most that is read of a YAML file", maxYAML>>20))
			return template.Node{}, false
		}
		decode = decodeYAML
	}
	n, err := decode(data)
	if err != nil {
		l.fail(file, err)
		return template.Node{}, false
	}
	return n, true
}

func isYAML(file string) bool {
	ext := path.Ext(file)
	return ext == ".yaml" || ext == ".yml"
}
