package directory

import (
	"context"
	"errors"
	"fmt"
)

// Note is what a part of a cell remembers from run to run, such as its keeper. The directory does not read it.
type Note struct {
	Version uint64 // one more with each WriteNote; 0 means that there is none yet
	Body    []byte // JSON
}

func noteKey(cell, note string) Key { return Key{cellPart + cell, famNote + "#" + note} }

// ReadNote returns a cell's note as of now; one of version 0 when there is none.
func (d *Directory) ReadNote(ctx context.Context, cell, note string) (Note, error) {
	r, err := d.read(ctx, Strong, noteKey(cell, note))
	if err != nil {
		return Note{}, fmt.Errorf("note %q of cell %q: %w", note, cell, err)
	}
	return Note{r.Version, r.Body}, nil
}

// WriteNote puts a note in the place of the one that was read. ErrStale when another was put meanwhile, unless
// this operation put it. It touches no other record, so that a writer of notes needs no right to anything else.
func (d *Directory) WriteNote(ctx context.Context, cell, note string, was Note, body []byte, operation string) (Note, error) {
	fail := func(err error) (Note, error) { return Note{}, fmt.Errorf("note %q of cell %q: %w", note, cell, err) }
	if !name(cell) || !name(note) {
		return fail(fmt.Errorf("%w: a cell and a note have names of 1 to %d characters", ErrInvalid, maxName))
	}
	err := d.write(ctx, Batch{operation, []Op{Put(noteKey(cell, note), was.Version, body)}})
	if conflict := (*Conflict)(nil); errors.As(err, &conflict) {
		have := conflict.Failed[0].Have
		if have.Version != was.Version+1 || have.Operation != operation {
			return fail(fmt.Errorf("expected version %d, found %d: %w", was.Version, have.Version, ErrStale))
		}
		err = nil
	}
	if err != nil {
		return fail(err)
	}
	return Note{was.Version + 1, body}, nil
}
