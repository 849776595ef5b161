package cdkdeploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// Bounds of what is kept of the output.
const (
	maxLog  = 4 << 20 // bytes in the file
	maxTail = 600     // bytes in an error, of which a journal keeps 1000: the last lines say what went wrong
)

// output takes what the command line writes: its beginning into a file, its end for an error.
type output struct {
	mu   sync.Mutex
	file *os.File // nil without a folder
	left int      // that the file takes
	last []byte
}

var fileName = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// newOutput makes a file of its own in the folder; none where folder is "".
func newOutput(folder, name string) (*output, error) {
	o := &output{left: maxLog}
	if folder == "" {
		return o, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	var err error
	o.file, err = os.CreateTemp(folder, fileName.ReplaceAllString(filepath.ToSlash(name), "-")+"-*.log")
	return o, err
}

// Write never fails: a full disk is no reason to end a deployment.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil && o.left > 0 {
		n := min(len(p), o.left)
		if o.left -= n; o.left > 0 {
			o.file.Write(p[:n])
		} else {
			o.file.Write(append(p[:n:n], "\n[the rest is left out]\n"...))
		}
	}
	if o.last = append(o.last, p[max(0, len(p)-maxTail):]...); len(o.last) > maxTail {
		o.last = append([]byte(nil), o.last[len(o.last)-maxTail:]...)
	}
	return len(p), nil
}

// close closes the file and returns its name.
func (o *output) close() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return ""
	}
	o.file.Close()
	o.left = 0
	return o.file.Name()
}

var escape = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// tail is the end of the output, whole lines where there are several, without what would steer a terminal.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := string(o.last)
	if _, rest, ok := strings.Cut(text, "\n"); ok && len(o.last) == maxTail {
		text = rest
	}
	text = escape.ReplaceAllString(strings.ToValidUTF8(text, "?"), "")
	text = strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.TrimSpace(text)
}
