package localcell

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/adapter/issuerkeys"
	"cellwall.dev/cellwall/internal/adapter/snapfile"
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
	// It lists the cells' tenants, which a front door may not.
	home, err := httpdir.NewClient(s.Directory, s.AdminSecret, nil)
	if err != nil {
		return err
	}
	issuer, err := issuerkeys.New(s.Issuer)
	if err != nil {
		return err
	}
	files := d.frontSnapshot()
	seal, err := snapfile.MakeKeys(files.keys, files.cell)
	if err != nil {
		return err
	}
	k, err := keeper.ForFrontDoor(keeper.FrontDoor{
		Cells: slices.Sorted(maps.Keys(s.Cells)), Store: snapfile.New(files.file), Keyring: seal, Directory: directory.Later(home), Issuer: issuer,
	})
	if err != nil {
		return err
	}
	k.Run(ctx, keepEvery, logged(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	return nil
}
