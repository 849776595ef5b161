package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"cellwall.dev/cellwall/internal/adapter/ssmami"
)

const pinFleet = `# the fleet of orders
service: orders
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders}
shard:
  http:
    asset: dist/web   # built by make
    amis: {eu-west-1/arm64: ami-0123456789abcdef0}
cells:
  - {name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4}
  - {name: us-1, account: "222222222222", region: us-east-1, zones: [a, b], shards: 4}
`

const (
	imageEU = "ami-0aaaaaaaaaaaaaaaa"
	imageUS = "ami-0bbbbbbbbbbbbbbbb"
)

// parameters is Systems Manager with the public parameters of some regions; before is called with each request.
type parameters struct {
	mu     sync.Mutex
	images map[string]string // by region and architecture
	before func(region string)
}

var signedFor = regexp.MustCompile(`Credential=[^/]+/[0-9]+/([^/]+)/ssm/`)

func (p *parameters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	var in struct{ Name string }
	body, _ := io.ReadAll(r.Body)
	region := signedFor.FindStringSubmatch(r.Header.Get("Authorization"))
	if json.Unmarshal(body, &in) != nil || region == nil || r.Header.Get("X-Amz-Target") != "AmazonSSM.GetParameter" {
		http.Error(w, `{"__type":"ValidationException"}`, http.StatusBadRequest)
		return
	}
	if p.before != nil {
		p.before(region[1])
	}
	for _, architecture := range []string{"arm64", "x86_64"} {
		if id := p.images[region[1]+"/"+architecture]; id != "" && in.Name == ssmami.Parameter(architecture) {
			fmt.Fprintf(w, `{"Parameter":{"Name":%q,"Value":%q}}`, in.Name, id)
			return
		}
	}
	http.Error(w, `{"__type":"ParameterNotFound","message":"not here"}`, http.StatusBadRequest)
}

// inRegions goes into a new folder with the fleet, and has commands find these images.
func inRegions(t *testing.T, fleet string) *parameters {
	t.Helper()
	inFolder(t, fleet)
	p := &parameters{images: map[string]string{"eu-west-1/arm64": imageEU, "us-east-1/arm64": imageUS}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL_SSM": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_CONFIG_FILE": "none", "AWS_SHARED_CREDENTIALS_FILE": "none", "AWS_PROFILE": "", "AWS_REGION": "", "AWS_MAX_ATTEMPTS": "1"} {
		t.Setenv(name, value)
	}
	return p
}

func pinAMI(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), append([]string{"fleet", "pin-ami"}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func fileText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPinAMI: the file gets the ids that lack or are old, and no other byte; then it is current.
func TestPinAMI(t *testing.T) {
	p := inRegions(t, pinFleet)
	if err := os.Chmod("fleet.yaml", 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("fleet.yaml", "link.yaml"); err != nil {
		t.Fatal(err)
	}
	code, out, errs := pinAMI(t, "--check")
	if code != ExitFound || fileText(t, "fleet.yaml") != pinFleet || !strings.Contains(errs, "2 images of fleet.yaml are not current") || !strings.Contains(out, "none") {
		t.Errorf("status %d\n%s%s", code, out, errs)
	}
	code, out, errs = pinAMI(t, "link.yaml")
	want := strings.Replace(pinFleet, "ami-0123456789abcdef0", imageEU+", us-east-1/arm64: "+imageUS, 1)
	if got := fileText(t, "fleet.yaml"); code != ExitDone || got != want {
		t.Errorf("status %d, %s%s\nthe file is\n%s", code, out, errs, got)
	}
	if info, err := os.Lstat("fleet.yaml"); err != nil || info.Mode() != 0o640 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat("link.yaml"); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	for _, args := range [][]string{{"--check"}, {}} {
		if code, out, errs := pinAMI(t, args...); code != ExitDone || strings.Count(out, "is current") != 2 || fileText(t, "fleet.yaml") != want {
			t.Errorf("%v: status %d\n%s%s", args, code, out, errs)
		}
	}
	p.images["eu-west-1/arm64"] = "ami-0cccccccccccccccc"
	code, out, errs = pinAMI(t, "--check", "--json")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != ExitFound || len(lines) != 2 || lines[0] != `{"key":"eu-west-1/arm64","pinned":"`+imageEU+`","current":"ami-0cccccccccccccccc"}` {
		t.Errorf("status %d\n%s%s", code, out, errs)
	}
	if files, err := filepath.Glob(".fleet*"); err != nil || len(files) > 0 {
		t.Errorf("left behind: %q, %v", files, err)
	}
}

func TestPinAMIRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		fleet  string
		code   int
		says   string
		change func(*parameters)
	}{
		"a region is down":   {pinFleet, ExitFailed, "region us-east-1", func(p *parameters) { delete(p.images, "us-east-1/arm64") }},
		"what is no image":   {pinFleet, ExitFailed, "nothing was written", func(p *parameters) { p.images["us-east-1/arm64"] = "image" }},
		"a fault":            {strings.Replace(pinFleet, "shards: 4", "shards: 0", 1), ExitUsage, "1 fault", nil},
		"no http":            {directoryFleet, ExitUsage, "no shard.http", nil},
		"written by escapes": {strings.Replace(pinFleet, "ami-0123456789abcdef0", `"\x61mi-0123456789abcdef0"`, 1), ExitUsage, "plain text", nil},
		"another was quicker": {pinFleet, ExitFound, "changed meanwhile", func(p *parameters) {
			p.before = func(string) { os.WriteFile("fleet.yaml", []byte(pinFleet+"# mine\n"), 0o600) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := inRegions(t, c.fleet)
			want := c.fleet
			if c.change != nil {
				if c.change(p); p.before != nil {
					want += "# mine\n"
				}
			}
			code, out, errs := pinAMI(t)
			if code != c.code || out != "" || !strings.Contains(errs, c.says) || fileText(t, "fleet.yaml") != want {
				t.Errorf("status %d, want %d and %q\n%s%s", code, c.code, c.says, out, errs)
			}
			if files, _ := filepath.Glob(".fleet*"); len(files) > 0 {
				t.Errorf("left behind: %q", files)
			}
		})
	}
	inRegions(t, pinFleet)
	if code, out, errs := pinAMI(t, os.DevNull); code != ExitUsage || out != "" || !strings.Contains(errs, "is not a regular file: the images cannot be written into it") {
		t.Errorf("of a device: status %d, %s%s", code, out, errs)
	}
	if code, _, errs := pinAMI(t, "nowhere.yaml"); code != ExitUsage || !strings.Contains(errs, "docs/fleet.md") {
		t.Errorf("status %d, %s", code, errs)
	}
}
