package localcell

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"sync"
	"time"
)

// fileSigns remembers when alarms had their last cause, for a supervisor that starts anew.
const fileSigns = "signs.json"

const (
	glanceEvery = 250 * time.Millisecond
	probeEach   = 4           // glances between two health checks of each worker
	writeEvery  = time.Second // of what goes on firing
)

// storedSigns is the file: by cell and alarm, the last cause.
type storedSigns struct {
	Causes map[string]map[string]time.Time `json:"causes"`
}

// startWatch begins to watch the cells, and returns what ends it.
func (s *supervisor) startWatch(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, m := range s.members {
		wg.Go(func() { s.watchCell(ctx, m) })
	}
	wg.Go(func() {
		written := s.signs.all()
		for {
			pause(ctx, writeEvery)
			now := s.signs.all()
			if !maps.EqualFunc(now, written, func(a, b map[string]time.Time) bool { return maps.EqualFunc(a, b, time.Time.Equal) }) {
				if err := s.dir.writeJSON(fileSigns, storedSigns{now}); err != nil {
					s.log.Error("alarms are not remembered", "why", err)
				}
				written = now
			}
			if ctx.Err() != nil {
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// rememberedSigns is the memory of the cells, with what the last supervisor saw.
func (s *supervisor) rememberedSigns(begun time.Time) (*signs, error) {
	var stored storedSigns
	if err := s.dir.readJSON(fileSigns, &stored); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return newSigns(begun, s.layout.Names(), stored.Causes), nil
}

// watchCell takes glances at a cell, and its workers' pulse now and then.
func (s *supervisor) watchCell(ctx context.Context, m *member) {
	var doors []*door
	for _, d := range s.doors {
		if d.cell == m {
			doors = append(doors, d)
		}
	}
	router := s.child(s.layout.process(m.plan.Cell, nameRouter))
	deployments := map[*door]int{}
	answers := map[*door]bool{}
	for n := 0; ; n++ {
		if n%probeEach == 0 {
			answers = s.pulse(ctx, m, doors)
		}
		g := glance{shards: map[string]shardGlance{}, starts: router.status().Starts}
		g.healthy, _, _ = router.progress()
		asked, cancel := context.WithTimeout(ctx, probeLimit)
		if c, err := counters(asked, m.admin, s.running.Secret); err == nil {
			g.counters = &c
		}
		cancel()
		if ctx.Err() != nil {
			return // what ends on purpose tells nothing
		}
		for _, d := range doors {
			ready, _, _ := d.child.progress()
			count, deploying := d.deployments()
			g.shards[d.shard] = shardGlance{
				healthy: ready && answers[d], planned: deploying || count != deployments[d], crashed: d.child.lastCrash(),
			}
			deployments[d] = count
		}
		s.signs.see(time.Now(), m.plan.Cell, g)
		pause(ctx, glanceEvery)
	}
}

// pulse says which workers answer their health check.
func (s *supervisor) pulse(ctx context.Context, m *member, doors []*door) map[*door]bool {
	var mu sync.Mutex
	answers := map[*door]bool{}
	var probes sync.WaitGroup
	for _, d := range doors {
		probes.Go(func() {
			err := probe(ctx, d.worker()+m.plan.HealthPath)
			mu.Lock()
			defer mu.Unlock()
			answers[d] = err == nil
		})
	}
	probes.Wait()
	return answers
}

// child is the process of a name, nil when there is none.
func (s *supervisor) child(name string) *child {
	for _, c := range s.children {
		if c.name == name {
			return c
		}
	}
	return nil
}
