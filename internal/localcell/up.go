package localcell

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/localcell/issuer"
	"cellwall.dev/cellwall/internal/localcell/proc"
)

const (
	downLimit  = 20 * time.Second      // for a cell to end after it was asked to
	killLimit  = 5 * time.Second       // for killed processes to be gone
	lockLimit  = 2 * time.Second       // for the lock of a cell that is no more
	checkEvery = 20 * time.Millisecond // while waiting for either
	logTail    = 2 << 10               // bytes of a log that an error quotes
)

// Up starts the cells of the layout, detached from this process, and returns when every process answers.
// self is the command line that runs the hidden commands of `cellwall local`. Tenants, given by their ids,
// that the directory does not know are added to it. ErrOtherCell and ErrLostShard when the cell on disk does
// not fit the plan.
func (d Dir) Up(ctx context.Context, l Layout, tenants []string, self []string) (r *Running, admitted Admitted, err error) {
	for _, plan := range l.Cells {
		worker, err := openWorker(plan.Worker)
		if err != nil {
			return nil, admitted, err
		}
		worker.Close()
	}
	fresh, err := d.create()
	if err != nil {
		return nil, admitted, err
	}
	lock, err := d.lock()
	if err != nil {
		return nil, admitted, err
	}
	defer func() {
		if err != nil && fresh {
			err = errors.Join(err, d.undo())
		}
		err = errors.Join(err, lock.Release()) // the supervisor has it, too, unless the start failed
	}()
	if err := d.sweep(); err != nil {
		return nil, admitted, err
	}
	if admitted, err = d.prepare(ctx, l, tenants); err != nil {
		return nil, admitted, err
	}
	if err := d.launch(ctx, lock, l, self); err != nil {
		return nil, admitted, err
	}
	r, err = d.Find()
	return r, admitted, err
}

// undo removes what a failed first start has made, so that the next one begins anew. What the guard is
// still killing may add a file meanwhile.
func (d Dir) undo() error {
	for deadline := time.Now().Add(killLimit); ; time.Sleep(checkEvery) {
		err := d.purge()
		if _, gone := os.Stat(d.path); err != nil || errors.Is(gone, fs.ErrNotExist) || time.Now().After(deadline) {
			return err
		}
	}
}

// lock takes the state directory's lock. ErrRunning when a cell runs there. A supervisor that was killed
// holds it for a moment longer than it seems alive, until the last of its threads has ended.
func (d Dir) lock() (*proc.Lock, error) {
	for deadline := time.Now().Add(lockLimit); ; time.Sleep(checkEvery) {
		lock, err := proc.TryLock(d.file(fileLock))
		if err != nil || lock != nil {
			return lock, err
		}
		if r, err := d.traces(); err == nil && r.Supervisor.Alive() {
			return nil, fmt.Errorf("%w (%s)", ErrRunning, d)
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("another command is starting or stopping the cell in %s; try again in a moment", d)
		}
	}
}

// sweep ends what a cell that died left behind: its guard has killed its processes, unless that was
// killed, too.
func (d Dir) sweep() error {
	r, err := d.traces()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		err = end(r.processes())
	default:
		// Half a file cannot be: it is renamed into place. Whoever wrote it, nothing is to be learned.
		err = nil
	}
	return errors.Join(err, d.remove(fileRunning))
}

// end kills the processes that are still those which were written down, and waits for them to be gone.
func end(processes []proc.Process) error {
	deadline := time.Now().Add(killLimit)
	for {
		alive := slices.DeleteFunc(slices.Clone(processes), func(p proc.Process) bool { return !p.Alive() })
		if len(alive) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d was killed and does not end", alive[0].PID)
		}
		for _, p := range alive {
			if err := p.Kill(); err != nil {
				return err
			}
		}
		time.Sleep(checkEvery)
	}
}

// prepare writes down all that the supervisor starts from.
func (d Dir) prepare(ctx context.Context, l Layout, tenants []string) (admitted Admitted, err error) {
	on, err := d.readLayout()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return admitted, fmt.Errorf("the cell's plan: %w", err)
	}
	l = l.withKeys(on)
	_, noDirectory := os.Stat(d.file(fileDirectory))
	for _, p := range l.Cells {
		file, had := l.KeyFiles[p.Cell], on.KeyFiles[p.Cell] != "" || len(on.Cells) == 0 && noDirectory == nil
		_, none := os.Stat(d.file(file))
		if err := d.makeKey(file, p.Topology.KeyVersion, had); err != nil {
			return admitted, err
		}
		if len(on.Cells) > 0 && errors.Is(none, fs.ErrNotExist) {
			defer func() { // a cell that does not come to lie here leaves nothing
				if err != nil {
					err = errors.Join(err, d.remove(file))
				}
			}()
		}
	}
	if text, err := d.read(fileIssuerKey); errors.Is(err, fs.ErrNotExist) {
		key, err := issuer.NewKey()
		if err == nil {
			err = d.write(fileIssuerKey, key)
		}
		if err != nil {
			return admitted, err
		}
	} else if err != nil {
		return admitted, fmt.Errorf("the issuer's key: %w", err)
	} else if _, err := issuer.ParseKey(text); err != nil {
		return admitted, fmt.Errorf("%w: %s: %w", ErrDamaged, d.file(fileIssuerKey), err)
	}
	if admitted, err = d.admit(ctx, l, tenants); err != nil {
		return admitted, err
	}
	if err := d.addWorkers(&l); err != nil {
		return admitted, err
	}
	return admitted, errors.Join(d.writeJSON(filePlan, l), d.remove(fileTopology))
}

// launch starts the supervisor, hands it the lock, and waits for its report.
func (d Dir) launch(ctx context.Context, lock *proc.Lock, l Layout, self []string) error {
	if err := d.clearLogs(l); err != nil {
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	defer reader.Close()
	cmd := exec.Command(self[0], append(slices.Clone(self[1:]), "supervise", "--state-dir", d.String())...)
	cmd.ExtraFiles = []*os.File{writer, lock.File()}
	proc.Detach(cmd)
	err = startLogged(cmd, d.Log(nameSupervisor))
	writer.Close()
	if err != nil {
		return err
	}
	unhook := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Kill() // the guard ends what it has started
		_ = reader.SetReadDeadline(time.Now())
	})
	defer unhook()

	line, err := bufio.NewReader(reader).ReadBytes('\n')
	var report startReport
	if err == nil {
		err = json.Unmarshal(line, &report)
	}
	switch {
	case ctx.Err() != nil:
		_ = cmd.Wait()
		return fmt.Errorf("the cell was not started: %w", context.Cause(ctx))
	case err != nil:
		_ = cmd.Wait()
		return fmt.Errorf("the supervisor ended before the cell was up; %s", d.logEnd(nameSupervisor))
	case report.Error != "":
		_ = cmd.Wait()
		return fmt.Errorf("the cell did not come up: %s", report.Error)
	}
	return cmd.Process.Release()
}

// tail is the end of a log, as far as there is one.
func (d Dir) tail(process string) string {
	text, err := os.ReadFile(d.Log(process))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-logTail):])
}

// logEnd says what a log ends with. The log itself may be gone by the time that somebody reads this.
func (d Dir) logEnd(process string) string {
	if text := strings.TrimSpace(d.tail(process)); text != "" {
		return fmt.Sprintf("its log %s ends with:\n%s", d.Log(process), text)
	}
	return fmt.Sprintf("its log %s is empty", d.Log(process))
}

// Down ends the cell that runs in d and waits for the last of its processes. Data stays, unless purge is
// set. ErrNotRunning when none ran; the traces of one that died, and with purge the data, are then
// removed nevertheless. ErrNotState when d is no cell's directory; then nothing is touched.
func (d Dir) Down(ctx context.Context, purge bool) error {
	if unused, err := d.unused(); err != nil {
		return err
	} else if unused {
		return fmt.Errorf("%w (%s)", ErrNotRunning, d)
	}
	r, err := d.traces()
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrDamaged):
		return err
	case err == nil && r.Supervisor.Alive():
		if err := stop(ctx, r); err != nil {
			return err
		}
	default:
		err = fmt.Errorf("%w (%s)", ErrNotRunning, d)
	}
	lock, lockErr := d.lock()
	if lockErr != nil {
		return lockErr
	}
	err = errors.Join(err, d.sweep())
	if purge {
		err = errors.Join(err, d.purge())
	}
	return errors.Join(err, lock.Release())
}

// stop asks the cell to end and sees to it.
func stop(ctx context.Context, r *Running) error {
	if err := r.control().Do(ctx, "POST", "/v1/stop", nil, nil); err != nil {
		// It does not listen; it may still act on a signal.
		if err := r.Supervisor.Terminate(); err != nil {
			return err
		}
	}
	limit, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	for r.Supervisor.Alive() && limit.Err() == nil {
		select {
		case <-limit.Done():
		case <-time.After(checkEvery):
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the cell was asked to end and has not ended yet: %w", ctx.Err())
	}
	// Nothing is left, unless the supervisor hung or died on its way.
	return end(r.processes())
}
