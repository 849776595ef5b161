package show

import (
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Report is a rollout as it stands, for programs. Keys stay, further ones may come.
type Report struct {
	Rollout   string            `json:"rollout"`
	Service   string            `json:"service"`
	Digest    string            `json:"digest"`
	Phase     rollout.Phase     `json:"phase"`
	Status    rollout.Status    `json:"status"`
	Over      bool              `json:"over"` // another rollout may begin
	Why       string            `json:"why,omitempty"`
	Started   time.Time         `json:"started"`
	Updated   time.Time         `json:"updated"`
	Holder    *Holder           `json:"holder"`           // who has or had the lease; null when that is not known
	BakesLeft float64           `json:"bakesLeftSeconds"` // if all goes well; deployments come on top
	Done      int               `json:"cellsDone"`
	Tenants   *Tenants          `json:"tenants"` // null when nobody counted them
	Cells     []CellReport      `json:"cells"`
	Despite   []rollout.Despite `json:"despite,omitempty"`
}

// Holder is who drives.
type Holder struct {
	Name    string    `json:"name"`
	Until   time.Time `json:"until"` // by the holder's clock
	Drives  bool      `json:"drives"`
	Fencing uint64    `json:"fencing"`
}

// CellReport is a cell as it stands.
type CellReport struct {
	Cell        string       `json:"cell"`
	Wave        int          `json:"wave"`  // from 1
	Batch       int          `json:"batch"` // within the wave, from 1
	Step        rollout.Step `json:"step"`
	Stage       string       `json:"stage"`
	StageNumber int          `json:"stageNumber"` // from 1
	Stages      int          `json:"stages"`
	Changed     *time.Time   `json:"changed"` // first deployed; null before
	Why         string       `json:"why,omitempty"`
	Bake        *BakeReport  `json:"bake"`                   // null unless it bakes
	Before      []string     `json:"alarmsBefore,omitempty"` // for which this rollout is not to blame
}

// BakeReport is the bake of a cell.
type BakeReport struct {
	Since       time.Time `json:"since"`
	Seconds     float64   `json:"seconds"`
	LeftSeconds float64   `json:"leftSeconds"` // 0 when only requests or a green look are waited for
	MinRequests int64     `json:"minRequests"`
}

// NewReport is the rollout at a time. lease is the latest of its service, or nil.
func NewReport(s rollout.State, at time.Time, lease *run.Lease) Report {
	r := Report{Rollout: s.Spec.ID, Service: s.Spec.Service, Digest: s.Spec.Digest, Phase: s.Spec.Phase, Status: s.Status, Over: s.Status.Over(),
		Why: s.Why, Started: s.Started, Updated: s.Updated, Despite: s.Despite, Tenants: NewTenants(s)}
	if s.Status == rollout.IsRunning || s.Status == rollout.IsPaused {
		r.BakesLeft = Left(s, at).Seconds()
	}
	if lease != nil {
		r.Holder = &Holder{lease.Holder, lease.Until, lease.Until.After(at), lease.Fencing}
	}
	for _, c := range s.Cells {
		cell := CellReport{Cell: c.Name, Wave: c.Wave + 1, Batch: c.Batch + 1, Step: c.Step, Stage: c.Stages[c.Stage].Name, StageNumber: c.Stage + 1,
			Stages: len(c.Stages), Why: c.Why, Before: c.Before}
		if !c.Changed.IsZero() {
			cell.Changed = &c.Changed
		}
		if c.Step == rollout.Proving || c.Step == rollout.Baking {
			total, since, requests := Bake(s, c)
			cell.Bake = &BakeReport{since, total.Seconds(), max(0, total-baked(since, at)).Seconds(), requests}
		}
		if c.Step == rollout.Done {
			r.Done++
		}
		r.Cells = append(r.Cells, cell)
	}
	return r
}
