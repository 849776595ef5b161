package assembly

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// Bounds of the search for bare templates.
const (
	maxDirs  = 8      // directories inside each other
	maxFiles = 50_000 // files with a template's ending
)

// bare reads a directory of templates and its subdirectories. A stack's name is its file's up to the
// first dot. What is no template is skipped and listed: directories hold all sorts of JSON and YAML.
func (l *loader) bare() {
	files := l.search()
	templates := map[string]template.Template{}
	var unread []error
	for _, file := range files {
		t, ok, err := l.bareTemplate(file)
		switch {
		case l.broken != nil:
			return
		case err != nil:
			unread = append(unread, err)
			l.in.Skipped = append(l.in.Skipped, file)
		case ok:
			templates[file] = t
		}
	}
	inner := map[string]bool{} // templates that another one nests
	for _, file := range files {
		t := templates[file]
		for i := range t.Resources {
			if child, ok := l.local(path.Dir(file), &t.Resources[i]); ok {
				inner[child] = true
			}
		}
	}
	root := func(file string) {
		name, _, _ := strings.Cut(path.Base(file), ".")
		l.add(path.Dir(file), audit.Stack{Name: name, File: file}, 0)
	}
	for _, file := range files {
		if _, ok := templates[file]; ok && !inner[file] {
			root(file)
		}
	}
	read := map[string]bool{}
	for i := range l.in.Stacks {
		read[l.in.Stacks[i].File] = true
	}
	for _, file := range files {
		if _, ok := templates[file]; ok && !read[file] && len(l.faults) == 0 {
			root(file) // templates that only nest each other end in a fault, which names them
		}
	}
	if len(l.in.Stacks) == 0 && len(l.faults) == 0 && l.broken == nil {
		l.faults = append(l.faults, &fault{"", errors.New("no manifest.json of a cloud assembly and no CloudFormation template (.json, .yaml, .yml, .template)")})
		l.faults = append(l.faults, unread[:min(len(unread), maxFaults)]...)
	}
}

// search lists the files that may be templates, in the order of their names.
func (l *loader) search() []string {
	var files []string
	err := fs.WalkDir(l.fsys, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		ext := path.Ext(name)
		switch {
		case file == ".":
			return nil
		case d.IsDir() && (strings.HasPrefix(name, ".") || name == "node_modules"):
			return fs.SkipDir
		case d.IsDir() && strings.Count(file, "/") >= maxDirs:
			l.in.Notes = append(l.in.Notes, audit.Note{File: file, What: fmt.Sprintf("deeper than %d directories: what is in it was not read", maxDirs)})
			return fs.SkipDir
		case d.IsDir() && l.isAssembly(file):
			l.in.Notes = append(l.in.Notes, audit.Note{File: file, What: "a cloud assembly inside of the directory was not read: audit it by itself"})
			return fs.SkipDir
		case d.IsDir() || strings.HasPrefix(name, ".") || ext != ".json" && ext != ".template" && !isYAML(name):
			return nil
		}
		if files = append(files, file); len(files) > maxFiles {
			return &fault{file, fmt.Errorf("more than %d files: name a directory of templates", maxFiles)}
		}
		return nil
	})
	if err != nil {
		l.broken = err
	}
	return files
}

// isAssembly says whether a directory has the manifest of a cloud assembly.
func (l *loader) isAssembly(dir string) bool {
	file := path.Join(dir, "manifest.json")
	if info, err := fs.Stat(l.fsys, file); err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return false
	}
	data, err := fs.ReadFile(l.fsys, file)
	return err == nil && bytes.Contains(data, []byte(`"artifacts"`))
}

// sections are the keys of a template at the place where they stand in one.
var sections = regexp.MustCompile(`(?m)^(?:Resources|AWSTemplateFormatVersion)\s*:|"(?:Resources|AWSTemplateFormatVersion)"\s*:`)

// bareTemplate reads a file that may be a template. ok is false for one that is none; err says why the
// file could not be read, where it does not look like a template. One that does is a fault.
func (l *loader) bareTemplate(file string) (t template.Template, ok bool, err error) {
	before := len(l.faults)
	n, ok := l.decode(file)
	switch {
	case l.broken != nil:
		return t, false, nil
	case !ok && sections.Match(l.last[:min(len(l.last), maxYAML)]):
		return t, false, nil
	case !ok && len(l.faults) > before:
		err, l.faults = l.faults[before], l.faults[:before]
		return t, false, err
	case !ok:
		return t, false, nil // beyond maxFaults
	case !template.IsTemplate(n):
		l.in.Skipped = append(l.in.Skipped, file)
		return t, false, nil
	}
	t, err = template.Parse(n)
	if err != nil {
		l.fail(file, err)
		return t, false, nil
	}
	return t, true, nil
}

// local is the file that a nested stack's template is read from when its address is a path, as it is
// before aws cloudformation package or sam package uploads it.
func (l *loader) local(dir string, r *template.Resource) (string, bool) {
	url := ""
	switch r.Type {
	case "AWS::CloudFormation::Stack":
		url = r.Properties.GetString("TemplateURL")
	case "AWS::Serverless::Application":
		url = r.Properties.GetString("Location")
	}
	file := path.Join(dir, url)
	if url == "" || path.IsAbs(url) || strings.Contains(url, "://") || !fs.ValidPath(file) {
		return "", false
	}
	info, err := fs.Stat(l.fsys, file)
	return file, err == nil && info.Mode().IsRegular()
}
