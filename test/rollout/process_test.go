package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	engine "cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/test/cdkcli"
)

// patience is how long anything may take on a busy machine.
const patience = 3 * time.Minute

// process is a cellwall that runs.
type process struct {
	w              *world
	args           string
	command        *exec.Cmd
	stdout, stderr buffer
	ended          chan struct{}
}

type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return cdkcli.Plain(b.text.String())
}

// begin begins a command of rollout, as an operator of the home account does.
func (w *world) begin(t *testing.T, args ...string) *process {
	t.Helper()
	return w.beginIn(t, w.environ, args...)
}

func (w *world) beginIn(t *testing.T, environ []string, args ...string) *process {
	t.Helper()
	all := append([]string{"rollout"}, args...)
	all = append(all, "--directory", "aws")
	if w.role != "" {
		all = append(all, "--role-name", w.role)
	}
	given := func(flag string) bool {
		for _, arg := range args {
			if arg == flag {
				return true
			}
		}
		return false
	}
	if !given("--fleet") {
		all = append(all, "--fleet", w.fleetFile("v1"))
	}
	switch args[0] {
	case "start", "resume", "rollback":
		all = append(all, "--by", "test", "--json")
		if !given("--assemblies") {
			all = append(all, "--assemblies", w.kept)
		}
	case "pause", "abort":
		all = append(all, "--by", "test")
	}
	p := &process{w: w, args: strings.Join(args, " "), command: exec.Command(filepath.Join(w.bin, "cellwall"), all...), ended: make(chan struct{})}
	p.command.Dir, p.command.Env = w.folders["v1"], environ
	p.command.Stdout, p.command.Stderr = &p.stdout, &p.stderr
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.command.Wait()
	}()
	t.Cleanup(func() {
		p.command.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("rollout %s ended with %d and said:\n%s\n%s", p.args, p.command.ProcessState.ExitCode(), p.stderr.String(), p.stdout.String())
		}
	})
	return p
}

// ends waits for the process and expects an exit status and texts on standard error.
func (p *process) ends(t *testing.T, status int, texts ...string) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("rollout %s has not ended after %v", p.args, patience)
	}
	if got := p.command.ProcessState.ExitCode(); got != status {
		t.Fatalf("rollout %s ended with %d, want %d", p.args, got, status)
	}
	for _, text := range texts {
		if !strings.Contains(p.stderr.String(), text) {
			t.Errorf("rollout %s does not say %q:\n%s", p.args, text, p.stderr.String())
		}
	}
}

// kill ends the process as a power cut does, and lets the lease run out at once, for which the next one waits otherwise.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Kill(); err != nil {
		t.Fatalf("rollout %s cannot be killed any more: %v", p.args, err)
	}
	<-p.ended
	if *long {
		return
	}
	lease, there, err := p.w.store.Holder(t.Context(), p.w.fleet.Service)
	if err == nil && !there {
		err = errors.New("there is no lease")
	}
	if err == nil {
		err = p.w.store.Free(t.Context(), lease)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// state is the latest rollout as its journal has it.
func (w *world) state(t *testing.T) engine.State {
	t.Helper()
	r, err := w.store.Latest(t.Context(), w.fleet.Service)
	if err != nil && !errors.Is(err, run.ErrNone) {
		t.Fatal(err)
	}
	return r.State
}

// until waits until the journal of the latest rollout says something, while the process that drives it lives.
func (p *process) until(t *testing.T, what string, is func(engine.State) bool) engine.State {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		s := p.w.state(t)
		if is(s) {
			return s
		}
		select {
		case <-p.ended:
			t.Fatalf("rollout %s has ended before %s: it is %s, %s", p.args, what, s.Status, s.Why)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("after %v it is not true that %s: the rollout is %s, %s", patience, what, s.Status, s.Why)
		}
	}
}

// steps waits until a cell is in one of the steps, in that stage if one is named.
func (p *process) steps(t *testing.T, cell, stage string, steps ...engine.Step) engine.State {
	t.Helper()
	return p.until(t, cell+" is "+string(steps[0])+" "+stage, func(s engine.State) bool {
		c := cellOf(s, cell)
		for _, step := range steps {
			if c.Step == step && (stage == "" || c.Stages[c.Stage].Name == stage) {
				return true
			}
		}
		return false
	})
}

func cellOf(s engine.State, name string) engine.Cell {
	for _, c := range s.Cells {
		if c.Name == name {
			return c
		}
	}
	return engine.Cell{}
}

// events are the events that the process told, a line each.
func (p *process) events(t *testing.T) (all []told) {
	t.Helper()
	for line := range strings.Lines(p.stdout.String()) {
		var e told
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("an event is %q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

type told struct {
	Kind, Cell, Stage, Step, Status, Why string
}

// open is the store in which the rollouts are kept.
func (w *world) open(t *testing.T) *journal.Store {
	t.Helper()
	return journal.New(dynamodir.New(dynamodb.NewFromConfig(w.aws.Config(t, home, region)), w.fleet.Names().DirectoryTable()))
}
