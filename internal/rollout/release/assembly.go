package release

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/template"
)

// Errors of this package. They come wrapped.
var (
	// ErrNotAssembly means that a folder is no cloud assembly, or one that cannot be read.
	ErrNotAssembly = errors.New("not a cloud assembly that can be rolled out")
	// ErrRefused means that an assembly must not be rolled out over this fleet.
	ErrRefused = errors.New("the assembly is refused")
	// ErrNoDigest means that no assembly of that digest is in the folder.
	ErrNoDigest = errors.New("no assembly of that digest is there")
	// ErrDamaged means that an assembly is not what its digest says any more.
	ErrDamaged = errors.New("the assembly has changed since it was kept")
)

// Bounds of what is read.
const (
	maxManifest = 64 << 20 // bytes of one manifest
	maxTemplate = 4 << 20  // bytes of one template; CloudFormation takes 1 MB
	maxNested   = 16       // assemblies inside each other
	maxStacks   = 10_000
)

// Place is the account and region that a stack lies in.
type Place struct{ Account, Region string }

func (p Place) String() string { return p.Account + "/" + p.Region }

// Stack is one stack of an assembly.
type Stack struct {
	Name      string // as CloudFormation knows it
	ID        string // as the CDK's command line takes it: the construct's path, such as eu-1/shard-s01
	Place     Place  // empty where the assembly leaves it to the environment
	Cell      string // by its tags; "" for a stack of the whole service
	Shard     string // likewise; "" for a cell's core and watch
	Service   string // likewise
	Tags      map[string]string
	Hash      string // of the template, see Canonical; "" where that was not read
	Protected bool   // has CloudFormation's termination protection

	root template.Node
	file string
}

// Assembly is a cloud assembly that was read whole.
type Assembly struct {
	Dir    string // the folder
	Digest string // sha256:…

	stacks  []Stack
	missing []string // context that was not there at synthesis
	assets  []asset
}

// asset is a file, or an image, that the CDK's command line publishes before it makes change sets.
type asset struct {
	manifest string   // the file that names it
	id       string   // its hash
	path     string   // its source, relative to the assembly
	there    bool     // the source is there
	command  bool     // the source is a command
	image    bool     // it is an image that is built
	objects  []stored // that it becomes
}

// stored is a file in S3, at a key of a bucket.
type stored struct{ bucket, key string }

// Stacks are the stacks, by name.
func (a *Assembly) Stacks() []Stack { return slices.Clone(a.stacks) }

// Open reads the assembly in a folder, and computes its digest. ErrNotAssembly when it is none.
func Open(dir string) (*Assembly, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAssembly, err)
	}
	defer root.Close()
	digest, err := Digest(root.FS()) // first, as it refuses links
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	a, err := index(dir, true)
	if err != nil {
		return nil, err
	}
	a.Digest = digest
	return a, nil
}

// index reads an assembly without its digest; what its templates and assets are only when it is to be whole.
func index(dir string, whole bool) (*Assembly, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAssembly, err)
	}
	defer root.Close()
	a := &Assembly{Dir: dir}
	r := reader{fsys: root.FS(), a: a, whole: whole, seen: map[string]bool{}}
	if err := r.assembly(".", 0); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotAssembly, dir, err)
	}
	if len(a.stacks) == 0 {
		return nil, fmt.Errorf("%w: %s: it has no stack", ErrNotAssembly, dir)
	}
	slices.SortFunc(a.stacks, func(x, y Stack) int { return strings.Compare(x.Name+"\x00"+x.ID, y.Name+"\x00"+y.ID) })
	return a, nil
}

// manifest is as much of manifest.json as is needed here.
type manifest struct {
	Artifacts map[string]artifact `json:"artifacts"`
	Missing   []struct {
		Key string `json:"key"`
	} `json:"missing"`
}

type artifact struct {
	Type        string `json:"type"`
	Environment string `json:"environment"`
	DisplayName string `json:"displayName"`
	Properties  struct {
		TemplateFile          string            `json:"templateFile"`
		StackName             string            `json:"stackName"`
		Tags                  map[string]string `json:"tags"`
		TerminationProtection bool              `json:"terminationProtection"`
		DirectoryName         string            `json:"directoryName"`
		File                  string            `json:"file"`
	} `json:"properties"`
}

type assetManifest struct {
	Files map[string]struct {
		Source struct {
			Path       string   `json:"path"`
			Executable []string `json:"executable"`
		} `json:"source"`
		Destinations map[string]struct {
			BucketName string `json:"bucketName"`
			ObjectKey  string `json:"objectKey"`
		} `json:"destinations"`
	} `json:"files"`
	Images map[string]struct{} `json:"dockerImages"`
}

type reader struct {
	fsys  fs.FS
	a     *Assembly
	whole bool
	seen  map[string]bool
}

func (r *reader) assembly(dir string, depth int) error {
	file := path.Join(dir, "manifest.json")
	if depth > maxNested || r.seen[dir] {
		return fmt.Errorf("%s: assemblies are nested deeper than %d, or one holds itself", file, maxNested)
	}
	r.seen[dir] = true
	var m manifest
	if err := r.decode(file, &m); err != nil {
		return err
	}
	if m.Artifacts == nil {
		return fmt.Errorf("%s: no artifacts", file)
	}
	for _, c := range m.Missing {
		r.a.missing = append(r.a.missing, c.Key)
	}
	for _, id := range slices.Sorted(maps.Keys(m.Artifacts)) {
		var err error
		switch x := m.Artifacts[id]; x.Type {
		case "aws:cloudformation:stack":
			err = r.stack(dir, id, x)
		case "cdk:cloud-assembly":
			err = r.assembly(path.Join(dir, x.Properties.DirectoryName), depth+1)
		case "cdk:asset-manifest":
			if r.whole {
				err = r.assetsOf(dir, path.Join(dir, x.Properties.File))
			}
		}
		if err != nil {
			return fmt.Errorf("%s: artifact %q: %w", file, id, err)
		}
	}
	return nil
}

func (r *reader) stack(dir, id string, x artifact) error {
	p := x.Properties
	rest, ok := strings.CutPrefix(x.Environment, "aws://")
	account, region, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return fmt.Errorf("environment %q is not aws://ACCOUNT/REGION", x.Environment)
	}
	if account == "unknown-account" || region == "unknown-region" {
		account, region = "", ""
	}
	s := Stack{
		Name: p.StackName, ID: x.DisplayName, Place: Place{account, region}, Tags: p.Tags, Protected: p.TerminationProtection,
		Service: p.Tags[names.TagService], Cell: p.Tags[names.TagCell], Shard: p.Tags[names.TagShard], file: path.Join(dir, p.TemplateFile),
	}
	if s.Name == "" {
		s.Name = id
	}
	if s.ID == "" {
		s.ID = id
	}
	s.ID, _, _ = strings.Cut(s.ID, " (")
	if len(r.a.stacks) >= maxStacks {
		return fmt.Errorf("more than %d stacks", maxStacks)
	}
	if r.whole {
		var err error
		if s.root, err = r.template(s.file); err != nil {
			return err
		}
		s.Hash = canonical(s.root)
	}
	r.a.stacks = append(r.a.stacks, s)
	return nil
}

func (r *reader) template(file string) (template.Node, error) {
	text, err := r.read(file, maxTemplate)
	if err != nil {
		return template.Node{}, err
	}
	root, err := template.DecodeJSON(text)
	if err != nil {
		return root, fmt.Errorf("%s: %w", file, err)
	}
	if !template.IsTemplate(root) {
		return root, fmt.Errorf("%s: not a template of CloudFormation", file)
	}
	return root, nil
}

// hash is that of the template of one of the stacks, read from its file.
func (a *Assembly) hash(x Stack) (string, error) {
	root, err := os.OpenRoot(a.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	r := reader{fsys: root.FS()}
	n, err := r.template(x.file)
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrNotAssembly, a.Dir, err)
	}
	return canonical(n), nil
}

func (r *reader) assetsOf(dir, file string) error {
	var m assetManifest
	if err := r.decode(file, &m); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(m.Files)) {
		f := m.Files[id]
		a := asset{manifest: file, id: id, path: path.Join(dir, f.Source.Path), command: len(f.Source.Executable) > 0}
		if f.Source.Path != "" && fs.ValidPath(a.path) {
			_, err := fs.Stat(r.fsys, a.path)
			a.there = err == nil
		}
		for _, d := range f.Destinations {
			a.objects = append(a.objects, stored{d.BucketName, d.ObjectKey})
		}
		slices.SortFunc(a.objects, func(x, y stored) int { return strings.Compare(x.bucket+" "+x.key, y.bucket+" "+y.key) })
		r.a.assets = append(r.a.assets, a)
	}
	for _, id := range slices.Sorted(maps.Keys(m.Images)) {
		r.a.assets = append(r.a.assets, asset{manifest: file, id: id, image: true})
	}
	return nil
}

// decode reads JSON in which no key stands twice.
func (r *reader) decode(file string, v any) error {
	text, err := r.read(file, maxManifest)
	if err != nil {
		return err
	}
	return decodeStrict(file, text, v)
}

// read reads a regular file of at most limit bytes.
func (r *reader) read(file string, limit int64) ([]byte, error) {
	if !fs.ValidPath(file) {
		return nil, fmt.Errorf("%s: the path leaves the assembly", file)
	}
	f, err := r.fsys.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s: larger than %d MiB", file, limit>>20)
	}
	return text, nil
}
