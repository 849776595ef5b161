//go:build unix

package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func start(t *testing.T, group int) (*exec.Cmd, Process) {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	Join(cmd, group)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	p, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, p
}

func TestAProcessIsItsPIDAndItsStart(t *testing.T) {
	self, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.Alive() {
		t.Error("this process is not alive")
	}
	recycled := Process{self.PID, self.Start + "0"}
	if recycled.Alive() {
		t.Error("a pid with another start is taken for the same process")
	}
	if err := recycled.Kill(); err != nil { // else this test ends here
		t.Error(err)
	}
	for _, p := range []Process{{}, {PID: self.PID}, {PID: -1, Start: self.Start}, {PID: 0, Start: self.Start}} {
		if p.Alive() {
			t.Errorf("%+v is alive", p)
		}
	}
}

func TestKillEndsAProcess(t *testing.T) {
	cmd, p := start(t, 0)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	// Not waited for: the process is a zombie now, which counts as ended.
	for deadline := time.Now().Add(10 * time.Second); p.Alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("alive after kill")
		}
	}
	cmd.Wait()
	if p.Alive() {
		t.Error("alive after wait")
	}
	if err := p.Terminate(); err != nil {
		t.Errorf("signal to a process that has ended: %v", err)
	}
}

func TestLockHasOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := TryLock(path)
	if err != nil || first == nil {
		t.Fatalf("first: %v, %v", first, err)
	}
	if second, err := TryLock(path); err != nil || second != nil {
		t.Fatalf("second: %v, %v; want nobody and no error", second, err)
	}
	// A child that outlives the lock's release must not hold it.
	start(t, 0)
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if third, err := TryLock(path); err != nil || third == nil {
		t.Fatalf("after release: %v, %v", third, err)
	}
	if _, err := TryLock(filepath.Join(path, "x")); err == nil {
		t.Error("a lock below a file was taken")
	}
}
