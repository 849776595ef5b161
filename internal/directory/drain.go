package directory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Drain is an operator's order that routers choose a shard last. It moves no tenant and changes no subset: a
// tenant whose other shards fail is still served by it. It stands until it is taken back.
type Drain struct {
	Shard string    `json:"shard"`
	By    string    `json:"by"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"` // UTC
}

// DrainShard has routers choose a shard of the cell last, and returns the cell with its drains. They learn of
// it by the keeper's next snapshot. A shard that is drained already stays so, since when it was. Whether the
// cell has such a shard is not its business. The change is in the cell's history, and repeated under its
// operation id it is found done, as OpenCell is.
func (d *Directory) DrainShard(ctx context.Context, cell, shard string, c Change) (Cell, error) {
	return d.drain(ctx, cell, shard, "drain shard "+shard, c, func(drained []Drain, at int, there bool) []Drain {
		if there {
			return drained
		}
		return slices.Insert(drained, at, Drain{shard, c.By, c.Why, c.At.UTC()})
	})
}

// UndrainShard takes DrainShard back.
func (d *Directory) UndrainShard(ctx context.Context, cell, shard string, c Change) (Cell, error) {
	return d.drain(ctx, cell, shard, "undrain shard "+shard, c, func(drained []Drain, at int, there bool) []Drain {
		if !there {
			return drained
		}
		return slices.Delete(drained, at, at+1)
	})
}

func (d *Directory) drain(ctx context.Context, cell, shard, did string, c Change, edit func(drained []Drain, at int, there bool) []Drain) (Cell, error) {
	if !name(shard) {
		return Cell{}, fmt.Errorf("change cell %q: %w: shard %q: want an id of 1 to %d characters", cell, ErrInvalid, shard, maxName)
	}
	return d.changeCell(ctx, cell, did, c, func(cell Cell) (Cell, []Op, error) {
		if cell.version == 0 {
			return Cell{}, nil, ErrUnknownCell
		}
		at, there := slices.BinarySearchFunc(cell.Drained, shard, func(d Drain, id string) int { return cmp.Compare(d.Shard, id) })
		cell.Drained = edit(slices.Clone(cell.Drained), at, there)
		return cell, nil, nil
	})
}
