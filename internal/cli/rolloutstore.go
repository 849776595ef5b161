package cli

import (
	"context"
	"errors"
	"io/fs"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout/journal"
)

// rolloutJournal is an open journal of rollouts.
type rolloutJournal struct {
	*journal.Store
	close func() error
}

// openJournal opens the journal of rollouts in the directory that --directory names, unless a newer version wrote that.
// Neither a placement key nor the shards are needed. A file is open only while something is read or written, so that
// commands do not shut each other out.
func (f *directoryFlags) openJournal(ctx context.Context) (*rolloutJournal, error) {
	var home directory.Home
	d := &desk{close: func() error { return nil }}
	var err error
	switch f.directory {
	case "", directoryLocal, directoryAWS:
		if d.by, err = f.name(); err == nil {
			home, _, err = f.home(ctx, d)
		}
	default:
		home, err = f.sharedFile()
	}
	if err != nil {
		return nil, err
	}
	if _, err := directory.Open(ctx, home); err != nil {
		return nil, errors.Join(directoryError(err), d.close())
	}
	return &rolloutJournal{journal.New(home), d.close}, nil
}

// sharedFile is the home in a file that other commands use, too.
func (f *directoryFlags) sharedFile() (directory.Home, error) {
	if f.roleName != "" {
		return nil, usagef("--role-name %s: only --directory aws lies in accounts", f.roleName)
	}
	home, err := boltdir.Share(f.directory)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, hint(usagef("--directory %s: there is no such file", f.directory), "--directory is local, aws or a file that is there")
	case err != nil:
		return nil, fileError(err)
	}
	return home, nil
}
