// Package directory is the small, strongly consistent table tenant → (cell, state, epoch, size class,
// pins, topology, slot), changed only by compare-and-set on the epoch, with what must stay in step with
// it: the capacity of cells, their topologies, and the slots of bounded placement.
//
// Every rule stands here, over a Home that keeps records and knows nothing of tenants. Memory is a home;
// others (a file, DynamoDB, HTTP) are adapters. A change is one Batch: the entry, its line in the history
// and whatever else must hold are written together or not at all.
//
//	d, err := directory.Open(ctx, home)          // refuses a directory of a newer version
//	e, err := d.Get(ctx, tenant)                 // Lookup says how fresh; List, ListCell, ListState in pages
//	e, err = d.Replace(ctx, before, after, c)    // compare-and-set; Create, SignUp, Suspend, Pin, ...
//	store := d.Store(by)                         // the narrow interface
//	past, err := d.History(ctx, tenant, 0, 100)  // who, when, why, before, after
//
// # Guarantees
//
// Each is held by the tests of the same name in package directorytest, on every home.
//
//  1. OneWinner: of all writers that expect one epoch of a tenant, exactly one succeeds; the tenant's
//     epoch rises by one with each change and never falls.
//  2. Repeatable: a change of a tenant or a cell whose answer was lost may be repeated under its operation
//     id, at any time and whatever happened since. Its success is told again; it never happens twice. An
//     operation id that comes with another change of the same tenant or cell is refused. A sign-up is two
//     changes under one id: it creates the tenant, and turns it active.
//  3. Linearizable: the changes and strong reads of a tenant take effect one at a time, each between its
//     beginning and its end.
//  4. Whole: a change, its line in the history, and what it takes or gives back of capacity and slots
//     become visible together, also after a crash.
//  5. Diagram: a tenant's state changes only along the arrows of State.
//  6. NeverOverfull: no number of sign-ups at once reserves more of a cell than its capacity less its
//     headroom, nor on a closed cell at all.
//  7. SlotsUnique: no two tenants of a cell have one slot, and one that was given back rests for
//     SlotQuarantine.
//  8. Immutable: a published topology never changes; one is retired only when nobody is left on it, and
//     nobody comes to it afterwards.
//  9. Listed: a tenant that is in the directory, the cell or the state during the whole of a listing is
//     in it exactly once.
//  10. HeldFirst: an entry turns active, or its subset changes, only after every shard of the new subset
//     holds the tenant; shards let go only afterwards.
//
// Times come from the caller; nothing here reads a clock.
package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// Store is what routers and simple writers use of a directory. Implementations are safe for concurrent
// use, and an Entry that goes in or comes out shares no memory with the store.
//
// Every write names its operation, so that a write whose answer was lost on the way may be repeated as
// it was: the second time it is recognised and its success reported again. That holds at least until
// another change follows (a Directory remembers for good); then the repetition may be ErrExists or
// ErrStale, and Get tells what stands.
type Store interface {
	// Get returns the entry as of now, consistently. ErrNotFound when there is none.
	Get(ctx context.Context, tenant string) (Entry, error)
	// Create writes the first entry of a tenant with epoch 1 and returns it; e.Epoch is not looked at.
	// ErrExists when there is one already, unless this operation wrote it. ErrInvalid as Check says.
	Create(ctx context.Context, e Entry) (Entry, error)
	// CompareAndSet replaces the entry whose epoch is expect, gives it epoch expect+1 and returns it;
	// e.Epoch is not looked at. ErrStale when the epoch differs, unless this operation wrote it;
	// ErrNotFound when there is no entry. ErrInvalid as Check says.
	CompareAndSet(ctx context.Context, expect uint64, e Entry) (Entry, error)
	// List returns up to limit entries that come after the tenant named after, "" for the beginning, in
	// an order that is the store's own and does not change. Fewer than limit means the end. An entry
	// that exists during the whole of a listing is returned exactly once. limit is at least 1.
	List(ctx context.Context, after string, limit int) ([]Entry, error)
}

// Format is the number of this version's record formats. A directory with a higher one is refused.
const Format = 1

// ErrNewer means that a newer version of cellwall wrote the directory.
var ErrNewer = errors.New("the directory was written by a newer version of cellwall")

// Directory is the tenant directory over a home. It remembers nothing but topologies, which do not change,
// and is safe for concurrent use.
type Directory struct {
	home       Home
	topologies sync.Map // Key to Topology
}

// Open checks the format of what the home keeps. It writes nothing: the first AddCell marks an empty home
// as a directory. ErrNewer when this version is too old to understand it. A Lagging home that does not
// answer consistently is asked again without that, so that whoever reads a replica starts while the home
// region is down.
func Open(ctx context.Context, home Home) (*Directory, error) {
	d := &Directory{home: home}
	r, err := d.read(ctx, Strong, formatKey)
	if _, lagging := home.(Lagging); err != nil && lagging && ctx.Err() == nil {
		var relaxedErr error
		if r, relaxedErr = d.read(ctx, Relaxed, formatKey); relaxedErr == nil {
			err = nil
		}
	}
	if err != nil {
		return d, err
	}
	if err := checkFormat(r); err != nil {
		return nil, err
	}
	return d, nil
}

// checkFormat refuses a directory of a later version by its format's record, which an empty one lacks.
func checkFormat(r Record) error {
	if r.Version == 0 {
		return nil
	}
	var f format
	if err := decode(r, &f); err != nil {
		return err
	}
	if f.Format > Format {
		return fmt.Errorf("%w: it has format %d, this version knows formats up to %d: install the newer version", ErrNewer, f.Format, Format)
	}
	return nil
}

type format struct {
	Format int `json:"format"`
}

// Families of records.
const (
	famEntry    = "ENTRY"    // TENANT#<id>    ENTRY
	famLog      = "LOG"      // TENANT#<id>    LOG#<epoch>
	famAccess   = "ACCESS"   // TENANT#<id>    ACCESS#<time>#<operation>, and of listings OPERATOR#<name>
	famCell     = "CELL"     // CELLS          CELL#<name>
	famTopology = "TOPOLOGY" // CELL#<name>    TOPOLOGY#<version>
	famSlot     = "SLOT"     // CELL#<name>    SLOT#<number>
	famDone     = "DONE"     // TENANT#<id>    DONE#<operation>, and of cells CELL#<name>
	famNote     = "NOTE"     // CELL#<name>    NOTE#<note>
)

var formatKey = Key{"META", "FORMAT"}

const (
	tenantPart   = "TENANT#"
	operatorPart = "OPERATOR#"
	cellsPart    = "CELLS"
	cellPart     = "CELL#"
)

func entryKey(tenant string) Key { return Key{tenantPart + tenant, famEntry} }
func logKey(tenant string, epoch uint64) Key {
	return Key{tenantPart + tenant, fmt.Sprintf("%s#%020d", famLog, epoch)}
}
func cellKey(cell string) Key { return Key{cellsPart, famCell + "#" + cell} }
func topologyKey(cell string, version uint64) Key {
	return Key{cellPart + cell, fmt.Sprintf("%s#%020d", famTopology, version)}
}
func slotKey(cell string, slot uint64) Key {
	return Key{cellPart + cell, fmt.Sprintf("%s#%020d", famSlot, slot)}
}

// Values of the indexes. Entries are in both; history and accesses are in the first, by who.
func byCell(cell string) string   { return "CELL#" + cell }
func byState(state State) string  { return "STATE#" + string(state) }
func byOperator(by string) string { return "BY#" + by }

func (d *Directory) read(ctx context.Context, c Consistency, k Key) (Record, error) {
	records, err := d.home.Read(ctx, c, k)
	if err != nil {
		return Record{}, err
	}
	return records[0], nil
}

// decode reads a record's body. One that does not decode is an error and never a partial value.
func decode(r Record, into any) error {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("the directory's record %v does not decode: %w", r.Key, err)
	}
	return nil
}

func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		// Every value that comes here is of a type of this package, all of whose values encode.
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return body
}

func decodeEntry(r Record) (Entry, error) {
	var e Entry
	if err := decode(r, &e); err != nil {
		return Entry{}, err
	}
	if e.Epoch != r.Version || entryKey(e.Tenant) != r.Key {
		return Entry{}, fmt.Errorf("the directory's record %v of version %d has the entry of tenant %q with epoch %d", r.Key, r.Version, e.Tenant, e.Epoch)
	}
	return e, nil
}

func decodeEntries(records []Record) ([]Entry, error) {
	entries := make([]Entry, len(records))
	for i, r := range records {
		var err error
		if entries[i], err = decodeEntry(r); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// Get returns the tenant's entry as of now. ErrNotFound when there is none.
func (d *Directory) Get(ctx context.Context, tenant string) (Entry, error) {
	return d.Lookup(ctx, Strong, tenant)
}

// Lookup returns the tenant's entry, as fresh as c says.
func (d *Directory) Lookup(ctx context.Context, c Consistency, tenant string) (Entry, error) {
	if !ValidTenant(tenant) {
		if err := ctx.Err(); err != nil {
			return Entry{}, err
		}
		return Entry{}, fmt.Errorf("tenant %q: %w", tenant, ErrNotFound)
	}
	r, err := d.read(ctx, c, entryKey(tenant))
	if err != nil {
		return Entry{}, fmt.Errorf("tenant %q: %w", tenant, err)
	}
	if r.Version == 0 {
		return Entry{}, fmt.Errorf("tenant %q: %w", tenant, ErrNotFound)
	}
	return decodeEntry(r)
}

// List returns up to limit entries after the tenant, as Store has it.
func (d *Directory) List(ctx context.Context, after string, limit int) ([]Entry, error) {
	return d.list(ctx, Range{Family: famEntry}, after, limit)
}

// ListCell is List of one cell's tenants. It may miss the changes of the last moments: Get tells.
func (d *Directory) ListCell(ctx context.Context, cell, after string, limit int) ([]Entry, error) {
	return d.list(ctx, Range{Family: famEntry, Index: First, Value: byCell(cell)}, after, limit)
}

// ListState is ListCell for the tenants in a state.
func (d *Directory) ListState(ctx context.Context, state State, after string, limit int) ([]Entry, error) {
	return d.list(ctx, Range{Family: famEntry, Index: Second, Value: byState(state)}, after, limit)
}

func (d *Directory) list(ctx context.Context, r Range, after string, limit int) ([]Entry, error) {
	var from Key
	if after != "" {
		from = entryKey(after)
	}
	records, err := d.home.List(ctx, r, from, limit)
	if err != nil {
		return nil, err
	}
	return decodeEntries(records)
}

// News is what the feed of changes tells: entries and topologies that changed, as they stand now. It
// is a hint for caches: it may tell things twice and late, and nothing may depend on it.
type News struct {
	Entries    []Entry
	Topologies []Topology
}

// Changes returns up to limit changes after the cursor, with the one that continues. The cursor "" gives
// the cursor of now: take it first, read the directory, then follow. ErrCursor: begin anew.
func (d *Directory) Changes(ctx context.Context, after Cursor, limit int) (News, Cursor, error) {
	records, next, err := d.home.Changes(ctx, after, limit)
	if err != nil {
		return News{}, "", err
	}
	var news News
	for _, r := range records {
		switch r.Family() {
		case famEntry:
			e, err := decodeEntry(r)
			if err != nil {
				return News{}, "", err
			}
			news.Entries = append(news.Entries, e)
		case famTopology:
			t, err := decodeTopology(r)
			if err != nil {
				return News{}, "", err
			}
			news.Topologies = append(news.Topologies, t)
		}
	}
	return news, next, nil
}
