package cli

import (
	"context"
	"errors"
	"io/fs"
	"os/user"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout/journal"
)

// rolloutJournal is an open journal of rollouts.
type rolloutJournal struct {
	*journal.Store
	where string // for people
	close func() error
}

// openJournal opens the journal of rollouts in the directory that --directory names. Neither a placement key nor a holder is
// needed. A file is open only while something is read or written, so that other commands reach a rollout that runs; with
// f.create, one that is not there is made.
func (f *directoryFlags) openJournal(ctx context.Context) (*rolloutJournal, error) {
	switch f.directory {
	case "", directoryLocal, directoryAWS:
		d := &desk{by: f.by, close: func() error { return nil }}
		if d.by == "" {
			u, err := user.Current()
			if err != nil {
				return nil, hint(usagef("who are you: %w", err), "say it with --by NAME")
			}
			d.by = u.Username
		}
		home, _, err := f.home(ctx, d)
		if err != nil {
			return nil, err
		}
		return journalIn(ctx, home, d.where, d.close)
	}
	if f.roleName != "" {
		return nil, usagef("--role-name %s: only --directory aws lies in accounts", f.roleName)
	}
	home, err := f.sharedFile(ctx)
	if err != nil {
		return nil, err
	}
	return journalIn(ctx, home, f.directory, func() error { return nil })
}

// journalIn is the journal in a home, unless that was written by a newer version.
func journalIn(ctx context.Context, home directory.Home, where string, end func() error) (*rolloutJournal, error) {
	if _, err := directory.Open(ctx, home); err != nil {
		return nil, errors.Join(directoryError(err), end())
	}
	return &rolloutJournal{journal.New(home), where, end}, nil
}

// sharedFile is the home in a file that other commands use, too.
func (f *directoryFlags) sharedFile(ctx context.Context) (directory.Home, error) {
	none, err := missing(f.directory)
	if err == nil && none && f.create {
		if err := noHoldings(ctx, f.directory, f.directory+holdsSuffix); err != nil {
			return nil, err
		}
		var made *boltdir.Dir
		if made, err = boltdir.Create(f.directory); err == nil {
			err = made.Close()
		}
	}
	if err != nil {
		return nil, fileError(err)
	}
	home, err := boltdir.Share(f.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint(usagef("--directory %s: there is no such file", f.directory), "cellwall rollout start makes one there; otherwise --directory is local, aws or a file that is there")
	}
	if err != nil {
		return nil, fileError(err)
	}
	return home, nil
}
