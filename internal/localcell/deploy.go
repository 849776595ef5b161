package localcell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// drainGrace is how long a worker that is replaced may take to end what it has begun: longer than a request lasts.
	drainGrace = requestLimit + 2*time.Second
	// comeUp is how long a new version may take to get healthy.
	comeUp     = 30 * time.Second
	problemEnd = 600 // bytes of a problem that a status quotes
)

// What travels between a rollout and the supervisor.
type (
	// Deployment brings shards of a cell to a version of the worker, one after the other.
	Deployment struct {
		Cell    string   `json:"cell"`
		Shards  []string `json:"shards"`            // ids; the next one follows when the last is healthy
		Version string   `json:"version"`           // that is in the state directory: see AddWorker
		Fencing uint64   `json:"fencing,omitempty"` // of the lease by which it is done; 0 for none
	}
	// WorkerVersion is what one shard runs.
	WorkerVersion struct {
		Cell  string `json:"cell"`
		Shard string `json:"shard"`
		Zone  string `json:"zone"`
		Wants string `json:"wants"`          // the version that it is to run
		Runs  string `json:"runs,omitempty"` // the version that answers; "" when none does
		// Deploying says that a deployment is at it, or will be.
		Deploying bool   `json:"deploying,omitempty"`
		Problem   string `json:"problem,omitempty"` // why it does not answer, or is not what the last deployment wanted
	}
)

var (
	errFenced    = errors.New("somebody else has taken over the deployments here")
	errDeploying = errors.New("a deployment is under way")
)

// id is how a shard is named in files, however many cells there are.
func (d *door) id() string { return d.cell.plan.Cell + "/" + d.shard }

// deploy brings shards to a version. It goes on when whoever asked for it is gone. What it changes is written down
// before; when the supervisor ends in the middle, each shard runs either version afterwards, as is written down.
func (s *supervisor) deploy(ctx context.Context, in Deployment) ([]WorkerVersion, error) {
	doors, err := s.doorsOf(in)
	if err != nil {
		return nil, err
	}
	if _, err := s.versions.file(in.Version); err != nil {
		return nil, err
	}
	if err := s.versions.fence(in.Fencing); err != nil {
		return nil, err
	}
	if err := s.claim(doors); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	work := func() { done <- s.deployAll(doors, in) }
	s.ending.Lock()
	if s.ended {
		s.ending.Unlock()
		s.unclaim(doors)
		return nil, errors.New("the cell is going down")
	}
	s.deploys.Go(work)
	s.ending.Unlock()
	select {
	case err := <-done:
		return s.workerVersions(doors), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// doorsOf are those of the shards that are named.
func (s *supervisor) doorsOf(in Deployment) ([]*door, error) {
	var doors []*door
	for _, shard := range in.Shards {
		i := slices.IndexFunc(s.doors, func(d *door) bool { return d.cell.plan.Cell == in.Cell && d.shard == shard })
		switch {
		case i < 0:
			return nil, fmt.Errorf("%w %.80q in cell %.80q here", errNoShard, shard, in.Cell)
		case slices.Contains(doors, s.doors[i]):
			return nil, fmt.Errorf("shard %s is named twice", shard)
		}
		doors = append(doors, s.doors[i])
	}
	if len(doors) == 0 {
		return nil, errors.New("no shards are named")
	}
	return doors, nil
}

// claim has the shards for one deployment alone.
func (s *supervisor) claim(doors []*door) error {
	s.claims.Lock()
	defer s.claims.Unlock()
	for _, d := range doors {
		if _, deploying := d.deployment(); deploying {
			return fmt.Errorf("%w: shard %s", errDeploying, d.name)
		}
	}
	for _, d := range doors {
		d.mu.Lock()
		d.problem, d.deploying = "", true
		d.begun++
		d.mu.Unlock()
	}
	return nil
}

func (s *supervisor) unclaim(doors []*door) {
	for _, d := range doors {
		problem, _ := d.deployment()
		d.setDeployment(problem, false)
	}
	s.changed()
}

// deployment is the problem of the last deployment of the door's shard, and whether one is under way.
func (d *door) deployment() (problem string, deploying bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.problem, d.deploying
}

// deployments is how many ever began at the shard, and whether one is under way.
func (d *door) deployments() (n int, deploying bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begun, d.deploying
}

func (d *door) setDeployment(problem string, deploying bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.problem, d.deploying = problem, deploying
}

// deployAll deploys one shard after the other, so that a tenant with two of them has one all the time, and no further
// than to the first that does not come up.
func (s *supervisor) deployAll(doors []*door, in Deployment) error {
	defer s.unclaim(doors)
	for _, d := range doors {
		begun := time.Now()
		if err := s.replace(s.life, d, in.Version); err != nil {
			err = fmt.Errorf("shard %s: %w", d.id(), err)
			d.setDeployment(bounded(err.Error()), true)
			s.log.Error("deployment failed", "shard", d.name, "version", in.Version, "why", err)
			return err
		}
		d.setDeployment("", true)
		s.log.Info("deployed", "shard", d.name, "version", in.Version, "took", time.Since(begun).Round(time.Millisecond))
	}
	return nil
}

// replace has a shard run a version: the worker is asked to end, what it has begun ends, and the new one starts. The
// router is refused meanwhile, which tells it that nothing was sent. A shard that runs the version is left alone.
func (s *supervisor) replace(ctx context.Context, d *door, version string) error {
	if wants, was := s.versions.of(d); was && wants == version && d.runs() == version {
		return nil
	}
	if d.child.broken() {
		return errors.New("it is broken on purpose; restore or heal it first")
	}
	if err := s.versions.put(d, version); err != nil {
		return err
	}
	if d.runs() == version { // by the layout: now it is written down
		return nil
	}
	deadline := time.Now().Add(drainGrace + comeUp)
	for {
		if d.chosen() != version {
			if err := d.child.drain(ctx, drainGrace); err != nil {
				return err
			}
		}
		ready, deaths, last := d.child.progress()
		switch {
		case ready && d.chosen() == version:
			return nil
		case d.child.broken():
			return errors.New("it was broken on purpose meanwhile")
		case d.chosen() == version && deaths >= startDeaths:
			return fmt.Errorf("version %s does not start: %w; %s", version, last, s.dir.logEnd(d.name))
		case time.Now().After(deadline):
			return fmt.Errorf("version %s is not healthy after %v: %w; %s", version, comeUp, orUnknown(last), s.dir.logEnd(d.name))
		}
		select {
		case <-ctx.Done():
			return errors.New("the cell is going down")
		case <-time.After(probeEvery):
		}
	}
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("it does not answer")
	}
	return err
}

// chosen is the version of the worker that was started last.
func (d *door) chosen() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version
}

// runs is the version that answers, "" when none does.
func (d *door) runs() string {
	if ready, _, _ := d.child.progress(); ready {
		return d.chosen()
	}
	return ""
}

// workerVersions are what the shards run.
func (s *supervisor) workerVersions(doors []*door) []WorkerVersion {
	all := []WorkerVersion{}
	for _, d := range doors {
		v := WorkerVersion{Cell: d.cell.plan.Cell, Shard: d.shard, Runs: d.runs()}
		v.Wants, _ = s.versions.of(d)
		for _, shard := range d.cell.plan.Topology.Shards {
			if shard.ID == d.shard {
				v.Zone = shard.Zone
			}
		}
		v.Problem, v.Deploying = d.deployment()
		if status := d.child.status(); v.Runs == "" && v.Problem == "" {
			v.Problem = bounded(status.State + " " + status.LastError)
		}
		if v.Runs != "" && v.Runs == v.Wants {
			v.Problem = "" // of a version that came up later
		}
		all = append(all, v)
	}
	return all
}

// bounded is a text of one line that a status may hold.
func bounded(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > problemEnd {
		text = strings.ToValidUTF8(text[:problemEnd/2], "") + " … " + strings.ToValidUTF8(text[len(text)-problemEnd/2:], "")
	}
	return text
}

// awaitDeployed waits until each shard answers or has died a few times. A version that was deployed and does not start
// is no reason to have no cell: nobody could bring another one then.
func (s *supervisor) awaitDeployed(ctx context.Context, doors []*door) error {
	deadline := time.Now().Add(startLimit)
	for {
		waiting := slices.ContainsFunc(doors, func(d *door) bool {
			ready, deaths, _ := d.child.progress()
			return !ready && deaths < startDeaths
		})
		if !waiting || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(probeEvery):
		}
	}
	for _, d := range doors {
		if ready, _, err := d.child.progress(); !ready {
			s.log.Error("a version that was deployed does not start", "shard", d.name, "version", d.chosen(), "why", err)
			d.setDeployment(bounded(fmt.Sprintf("version %s does not start: %v", d.chosen(), orUnknown(err))), false)
		}
	}
	return nil
}
