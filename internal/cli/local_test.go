package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell/traffic"
)

func runLocal(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), append([]string{"local"}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// TestLocalWrongUse checks that nothing is started or written for wrong flags, files and configurations.
func TestLocalWrongUse(t *testing.T) {
	inFolder(t, smallFleet)
	if err := os.WriteFile("worker", []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("bad.csv", []byte("tenant,load\nacme,1\nacme,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("bad.yaml", []byte("service: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		words string
		args  []string
	}{
		{"unknown command", []string{"sideways"}},
		{"want at least one", []string{"traffic", "--rps", "0.1", "--for", "1s"}},
		{"unknown flag", []string{"up", "--fast"}},
		{"accepts 0 arg", []string{"up", "eu-1"}},
		{"accepts 1 arg", []string{"token"}},
		{"accepts 1 arg", []string{"break", "s01", "s02"}},
		{"cell \"eu-9\" is not in the fleet", []string{"up", "--worker", "worker", "--cell", "eu-9"}},
		{"build the sample with make build", []string{"up", "--worker", "nothing"}},
		{"no worker to start", []string{"up", "--worker", "bad.csv"}},
		{"not a state directory", []string{"up", "--worker", "worker", "--state-dir", "bad.csv"}},
		{"not a state directory", []string{"up", "--worker", "worker", "--state-dir", "bad.csv/below"}},
		{"not a state directory", []string{"up", "--worker", "worker", "--state-dir", "."}},
		{"not a state directory", []string{"down", "--state-dir", "."}},
		{"not a state directory", []string{"down", "--purge", "--state-dir", "."}},
		{"not a state directory", []string{"status", "--state-dir", "bad.csv"}},
		{"bad.csv:3", []string{"up", "--worker", "worker", "--tenants", "bad.csv"}},
		{"none.csv", []string{"up", "--worker", "worker", "--tenants", "none.csv"}},
		{"none.yaml", []string{"up", "--worker", "worker", "--fleet", "none.yaml"}},
		{"bad.yaml:1", []string{"up", "--worker", "worker", "--fleet", "bad.yaml"}},
		{"--state-dir is empty", []string{"status", "--state-dir", ""}},
		{"want a number in decimal", []string{"traffic", "--rate", "NaN"}},
		{"rounds, concurrency", []string{"traffic", "--rounds", "0"}},
		{"--tenants -1", []string{"traffic", "--tenants", "-1"}},
		{"a file goes with --rps", []string{"traffic", "--tenants", "some.csv"}},
		{"--tenants -1", []string{"traffic", "--tenants", "-1", "--rps", "10"}},
		{"bad.csv:3", []string{"traffic", "--tenants", "bad.csv", "--rps", "10"}},
		{"requests a second", []string{"traffic", "--rps", "0"}},
		{"requests a second", []string{"traffic", "--for", "46m"}},
		{"--rounds: not with --rps", []string{"traffic", "--rps", "10", "--rounds", "4"}},
		{"--break: not with --rps", []string{"traffic", "--for", "1s", "--break", "s01"}},
		{"--seed -1", []string{"traffic", "--rps", "1", "--seed", "-1"}},
		{"--how: want kill", []string{"fail", "shard", "eu-1/7"}},
		{"between 1 and 2 arg", []string{"fail"}},
		{"between 1 and 2 arg", []string{"fail", "shard", "a", "b", "--how", "kill"}},
		{"at most 2 arg", []string{"heal", "shard", "a", "b"}},
		{"accepts 1 arg", []string{"poison"}},
		{"argument 1 is empty", []string{"poison", ""}},
		{"--cells and --cell", []string{"up", "--worker", "worker", "--cells", "1", "--cell", "eu-1"}},
		{"9 cells: want 1 to 2,", []string{"up", "--worker", "worker", "--cells", "9"}},
		{"0 cells: want 1 to 2,", []string{"up", "--worker", "worker", "--cells", "0"}},
		{"invalid argument", []string{"break", "s01", "--for", "long"}},
	} {
		code, out, errs := runLocal(t, test.args...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, test.words) {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want status %d and %q", test.args, code, out, errs, ExitUsage, test.words)
		}
	}
	if _, err := os.Stat(defaultStateDir); !os.IsNotExist(err) {
		t.Errorf("a state directory was made: %v", err)
	}
}

func TestLocalWithoutARunningCell(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"token", "acme"}, {"break", "s01"}, {"traffic"},
		{"traffic", "--rps", "1"}, {"fail", "store", "--how", "kill"}, {"heal"}, {"heal", "shard", "s01"}, {"poison", "acme"}} {
		code, out, errs := runLocal(t, args...)
		if code != ExitFound || out != "" || !strings.Contains(errs, "no local cell is running here") || !strings.Contains(errs, "hint: start one") {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want status %d", args, code, out, errs, ExitFound)
		}
	}
	for _, args := range [][]string{{"down"}, {"down", "--purge"}} {
		if code, _, errs := runLocal(t, args...); code != ExitDone || !strings.Contains(errs, "no local cell") {
			t.Errorf("%v: status %d, stderr %q", args, code, errs)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("files were made: %v, %v", files, err)
	}
}

// TestLocalProcessesNeedTheirSupervisor starts the hidden commands by hand.
func TestLocalProcessesNeedTheirSupervisor(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for _, name := range []string{"directory", "store", "issuer", "router", "keeper", "frontdoor", "gate"} {
		if code, _, errs := runLocal(t, name, "--state-dir", state); code != ExitFailed || !strings.Contains(errs, "settings") {
			t.Errorf("%s: status %d, stderr %q", name, code, errs)
		}
	}
	_, out, _ := runLocal(t, "--help")
	for _, hidden := range []string{"supervise", "guard", "router ", "keeper ", "gate ", "frontdoor"} {
		if strings.Contains(out, "\n  "+hidden) {
			t.Errorf("the help shows %q", hidden)
		}
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"acme": "acme", "org-1": "org-1", "a/b.c_d": "a/b.c_d",
		"": "''", "-x": "'-x'", "a b": "'a b'", "o'neil": `'o'\''neil'`, "$(id)": "'$(id)'", "ä": "'ä'",
	} {
		if got := quote(word); got != want {
			t.Errorf("quote(%q) is %s, want %s", word, got, want)
		}
	}
}

func TestPrintTraffic(t *testing.T) {
	var out bytes.Buffer
	l := &local{app: &app{out: &out}}
	report := traffic.Report{
		Tenants: 200, Broken: "s07", Untouched: 192, Felt: 7, FullyDown: 1, Asked: 200, FellBack: 7,
		ByPlacement: &traffic.Prediction{Degraded: 25, FullyDown: 2},
		Requests:    1600, DuringBreak: 400, Failures: 3, FirstFailure: "PUT answered 503", Fallbacks: 9,
		Acknowledged: 799, Lost: 2, Unread: 1, Seconds: 1.25, BreakSeconds: 0.5,
		Calm: traffic.Latency{Median: 1, P99: 2.5, Max: 9}, Break: traffic.Latency{Median: 1.5, P99: 3, Max: 4},
	}
	if err := l.printTraffic(&report, false); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"tenants 200", "untouched 192 96.0 %", "felt it 7 3.5 %: served", "fully down 1 0.5 %: of 200 that asked",
		"by placement, not measured degraded 25 12.5 %: shard s07", "fully down 2 1.0 %: it is their only one",
		"1600 in 1.2 s", "400 of them during the 0.5 s of the break", "failed 3", "PUT answered 503",
		"9 times", "1.0 ms median; 99 % within 2.5 ms, all within 9.0 ms", "1.5 ms median", "acknowledged 799 each", "lost = 2", "1 could not be read back",
		"ended the sending early",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}

func TestHeartbeatIsSilentWhenQuick(t *testing.T) {
	var out bytes.Buffer
	heartbeat(&out, "starting")()
	if out.Len() > 0 {
		t.Errorf("said %q", &out)
	}
	stop := heartbeat(&out, "starting")
	time.Sleep(1100 * time.Millisecond)
	stop()
	if !strings.HasPrefix(out.String(), "starting: 1 s\n") {
		t.Errorf("said %q", &out)
	}
}
