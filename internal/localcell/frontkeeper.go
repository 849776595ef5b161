package localcell

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/keeper"
	"cellwall.dev/cellwall/internal/snapshot"
)

// nameFrontKeeper is the front door's keeper, in the place of a cell's.
const nameFrontKeeper = snapshot.Fleet + "/" + nameKeeper

// frontSnapshot names the files of the front door's snapshot.
func (d Dir) frontSnapshot() snapshotFiles {
	return snapshotFiles{snapshot.Fleet, d.file(snapshot.Fleet + "." + fileSnapshot), d.file(snapshot.Fleet + "." + fileSnapshotKeys)}
}

// runFrontKeeper is the front door's keeper process: it writes in which cell each tenant is, until ctx ends.
func runFrontKeeper(ctx context.Context, d Dir) error {
	var s frontSettings
	if err := d.readJSON(fileFrontDoor, &s); err != nil {
		return fmt.Errorf("the front door's settings: %w", err)
	}
	reach, err := reachOf(s.Directory, s.AdminSecret, s.Issuer, d.frontSnapshot())
	if err != nil {
		return err
	}
	k, err := keeper.ForFrontDoor(keeper.FrontDoor{
		Cells: slices.Sorted(maps.Keys(s.Cells)), Store: reach.store, Keyring: reach.seal, Directory: directory.Later(reach.home), Issuer: reach.issuer,
	})
	if err != nil {
		return err
	}
	k.Run(ctx, keepEvery, logged(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	return nil
}
