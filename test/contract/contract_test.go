// Package contract runs the examples of docs/shard-contract.md.
package contract

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/adapter/boltitems"
	"cellwall.dev/cellwall/internal/adapter/itemhttp"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// backend is a cell's store as itemhttp serves it.
type backend struct{ *boltitems.Items }

// worker starts the sample worker as shard s01, which holds acme since epoch 4, and returns its address.
func worker(t *testing.T) string {
	t.Helper()
	items, err := boltitems.Create(filepath.Join(t.TempDir(), "items.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { items.Close() })
	if err := items.Holds().Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: 4}); err != nil {
		t.Fatal(err)
	}
	store := httptest.NewServer(itemhttp.Handler(backend{items}))
	t.Cleanup(store.Close)

	bin := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.Command("go", "build", "-o", bin, "cellwall.dev/cellwall/lambda/worker-http").CombinedOutput(); err != nil {
		t.Fatalf("build the worker: %v\n%s", err, out)
	}
	cmd := exec.Command(bin)
	cmd.Env = append(os.Environ(), "CELLWALL_BIND=127.0.0.1", "PORT=0", "CELLWALL_CELL=eu-1", "CELLWALL_SHARD=s01", "CELLWALL_STORE_URL="+store.URL,
		"CELLWALL_TABLE=", "CELLWALL_SHARD_TABLE=", "CELLWALL_ROUTER_SECRET=", "CELLWALL_DISPATCH_QUEUE=", "CELLWALL_DEAD_QUEUE=")
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "worker listens address="); ok {
			go func() { // so that the worker never waits for its log to be read
				for lines.Scan() {
				}
			}()
			return address
		}
	}
	t.Fatal("the worker ended before it listened")
	return ""
}

// step is a command of the page and what it prints.
type step struct{ command, want string }

// steps are the commands of all console blocks, in order.
func steps(page string) (all []step) {
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, step{command: command})
			} else {
				all[len(all)-1].want += line
			}
		}
	}
	return all
}

// TestExamples executes the page's commands in one shell, as a reader would.
func TestExamples(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "openssl", "base32"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the examples need %s: %v", tool, err)
		}
	}
	page, err := os.ReadFile("../../docs/shard-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	all := steps(string(page))
	if len(all) < 25 {
		t.Fatalf("the page has %d examples", len(all))
	}
	address := worker(t)
	if _, _, err := net.SplitHostPort(address); err != nil {
		t.Fatal(err)
	}
	const mark = "--- end of step ---"
	var script bytes.Buffer
	for _, s := range all {
		fmt.Fprintf(&script, "%secho '%s'\n", strings.ReplaceAll(s.command, "127.0.0.1:8080", address), mark)
	}
	cmd := exec.Command("bash", "-u")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "no_proxy=127.0.0.1")
	cmd.Stdin = &script
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed := strings.Split(string(out), mark+"\n")
	if len(printed) != len(all)+1 {
		t.Fatalf("%d commands printed %d times", len(all), len(printed)-1)
	}
	for i, s := range all {
		want := strings.ReplaceAll(regexp.QuoteMeta(s.want), "…", "[^\"\n/]+")
		if !regexp.MustCompile("^" + want + "$").MatchString(printed[i]) {
			t.Errorf("$ %sprints\n%swant\n%s", s.command, printed[i], s.want)
		}
	}
}

// TestThePageHasTheKitsNumbers: limits, names and the message are those of the kit.
func TestThePageHasTheKitsNumbers(t *testing.T) {
	text, err := os.ReadFile("../../docs/shard-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, want := range []string{
		fmt.Sprintf("at most 1 MiB (%s bytes)", "1,048,576"), fmt.Sprintf("dispatched %d times", shardkit.MaxDispatches), fmt.Sprintf("more than %d hops", shardkit.MaxHops), "At most 1,024 bytes",
		fmt.Sprintf("at most %d KiB before that", shardkit.MaxAnswer>>10), fmt.Sprintf("lists of texts, at most %d KiB", shardkit.MaxAnswerHeader>>10),
		"`" + shardkit.Records + "`", "`" + shardkit.Reserved + "`", "`" + shardkit.HeaderReplayed + ": true`", "| `" + directory.HoldingEpoch + "` |", "| `" + directory.HoldingGone + "` |",
		"`" + shardkit.HeaderTenant + "`", "`" + shardkit.HeaderEpoch + "`", "`" + shardkit.HeaderShard + "`", "`" + shardkit.HeaderSecret + "`",
		"`" + shardkit.HeaderJob + "`", "`" + shardkit.HeaderFrom + "`", "`" + shardkit.HeaderHops + "`", "`" + shardkit.HeaderDeadline + "`",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("docs/shard-contract.md does not say %s", want)
		}
	}
	if shardkit.MaxJob != 1048576 || shardkit.MaxName != 1024 {
		t.Error("a limit has changed, and the page has not")
	}
	examples := regexp.MustCompile(`(?m)^\{"id":.*\}$`).FindAllString(page, -1)
	if len(examples) == 0 {
		t.Error("docs/shard-contract.md shows no job")
	}
	for _, message := range examples {
		if strings.Contains(message, "…") {
			continue // an answer
		}
		job, err := shardkit.ParseJob([]byte(message))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := job.Encode(); err != nil || string(again) != message {
			t.Errorf("the page's job is written %s, %v", again, err)
		}
	}
}
