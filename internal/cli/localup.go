package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/localcell"
)

func localUp(l *local) *cobra.Command {
	var cell, worker, tenantsFile string
	var cells int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cell, or several, and leave them running",
		Long: `Start one cell of the fleet as separate processes on the loopback address and leave it running: a store
with the tenant directory and the queues, a token issuer, a router, and a worker process for each shard. What
dies is started again; when the supervisor dies, everything ends.

With --cells N it is the first N cells of the fleet that are not for internal tenants only, each with a router,
workers and a placement key of its own, and a front door before them, which sends each tenant to the cell where
the directory has it. Processes are then named CELL/PROCESS. New tenants are given to the cells in turn.

Tenants of the file that the directory does not know yet are added to it. A new cell places them as the
fleet says; after that, a change of the fleet is published and migrated to (cellwall topology).

Exit status 3 when a cell runs in the state directory already, when another cell lies there, and when the
fleet lacks a shard that a topology of the cell there names.`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := l.loadFleet()
			if err != nil {
				return err
			}
			tenants, err := l.tenants(tenantsFile)
			if err != nil {
				return err
			}
			self, err := self()
			if err != nil {
				return err
			}
			if worker, err = workerFile(worker, self[0]); err != nil {
				return err
			}
			if cmd.Flags().Changed("cells") && cell != "" {
				return usagef("--cells and --cell: one of them says which cells run")
			}
			layout, err := localLayout(f, cell, cells, cmd.Flags().Changed("cells"), worker)
			if err != nil {
				return usagef("%w", err)
			}
			d, err := l.dir()
			if err != nil {
				return err
			}
			stop := heartbeat(l.err, fmt.Sprintf("starting %s with %s", cellNames(layout.Names()), count(layout.Shards(), "shard")))
			l.watches() // what it has started must not stay
			r, admitted, err := d.Up(cmd.Context(), layout, tenants.tenants, self)
			stop()
			if err != nil {
				return upError(err)
			}
			if !admitted.AsFleet {
				fmt.Fprintf(l.err, "cell %s places its tenants by topology %d, and the fleet says otherwise: cellwall topology diff %s tells who would move, topology publish and migrate move them\n",
					admitted.Cell, admitted.Topology, admitted.Cell)
			}
			if n, err := d.Deployed(layout); err != nil {
				return stateError(err)
			} else if n > 0 {
				fmt.Fprintf(l.err, "%s run the version of the worker that was deployed to them last, and not %s: cellwall local status shows which\n", count(n, "shard"), worker)
			}
			return l.printUp(r, layout, admitted.Tenants, tenants.tenants[0], asJSON)
		},
	}
	cmd.Flags().StringVar(&cell, "cell", "", "cell of the fleet (default: the first that is not for internal tenants only)")
	intVar(cmd.Flags(), &cells, "cells", 1, "number of cells, with a front door before them (default: one cell, without a front door)")
	cmd.Flags().StringVar(&worker, "worker", "", "executable of the service (default: the file worker beside cellwall)")
	cmd.Flags().StringVar(&tenantsFile, "tenants", "", "file with one tenant a line, or CSV with the header tenant,load (default: a sample of 200)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// workerFile is the absolute path of the service's executable.
func workerFile(named, self string) (string, error) {
	if named == "" {
		named = filepath.Join(filepath.Dir(self), "worker")
	}
	path, err := filepath.Abs(named)
	if err != nil {
		return "", usagef("worker: %w", err)
	}
	if _, err := os.Stat(path); err != nil {
		return "", hint(usagef("worker: %w", err), "build the sample with make build, or name your service's executable with --worker")
	}
	return path, nil
}

func localLayout(f *fleet.Fleet, cell string, cells int, several bool, worker string) (localcell.Layout, error) {
	if several {
		return localcell.NewLayout(f, cells, worker)
	}
	plan, err := localcell.NewPlan(f, cell, worker)
	return plan.Alone(), err
}

// cellNames are cells in words.
func cellNames(names []string) string {
	if len(names) == 1 {
		return "cell " + names[0]
	}
	return "cells " + strings.Join(names, ", ")
}

func upError(err error) error {
	switch {
	case errors.Is(err, localcell.ErrWorker):
		return hint(usagef("%w", err), "build the sample with make build, or name your service's executable with --worker")
	case errors.Is(err, localcell.ErrRunning):
		return hint(foundf("%w", err), "cellwall local status shows it, cellwall local down ends it")
	case errors.Is(err, localcell.ErrOtherCell):
		return hint(foundf("%w", err), "use another --state-dir, or give the old cell's data up with cellwall local down --purge")
	case errors.Is(err, directory.ErrKey):
		return hint(usagef("%w", err), "put the key file back that the cell had in the state directory; another one would place all of its tenants elsewhere")
	case errors.Is(err, directory.ErrService):
		return hint(usagef("%w", err), "use another --state-dir, or name that service's fleet with --fleet")
	case errors.Is(err, localcell.ErrLostShard):
		return hint(foundf("%w", err), "put the shard back; to take it away, publish a topology --without it, migrate, and retire the versions that name it first")
	}
	return stateError(err)
}

// upReport is the JSON form of local up.
type upReport struct {
	Cell       string   `json:"cell"`
	Cells      []string `json:"cells"`
	Router     string   `json:"router"` // the front door's address, where there is one
	Issuer     string   `json:"issuer"`
	Shards     []string `json:"shards"`
	NewTenants int      `json:"newTenants"`
}

// printUp says where the cells are, with a request of one of their tenants to try.
func (l *local) printUp(r *localcell.Running, layout localcell.Layout, added int, tenant string, asJSON bool) error {
	if asJSON {
		return l.json(upReport{r.Cell, r.Names(), r.Router, r.Issuer, shardNames(r.Processes), added})
	}
	token := program() + " local token "
	if l.stateDir != defaultStateDir {
		token += "--state-dir " + quote(l.stateDir) + " "
	}
	token += quote(tenant)
	is, entrance := "is", "router "
	if layout.FrontDoor {
		entrance = "door   "
	}
	if len(layout.Cells) > 1 {
		is = "are"
	}
	_, err := fmt.Fprintf(l.out, `%s %s up: %s, %s added
%s %s
issuer  %s
try     curl -H "Authorization: Bearer $(%s)" -X PUT -d hello %s/orders/1
`, cellNames(r.Names()), is, count(layout.Shards(), "shard"), count(added, "tenant"), entrance, r.Router, r.Issuer, token, r.Router)
	return err
}

// shardNames are the names of the shards' processes.
func shardNames(all []localcell.ProcessStatus) []string {
	names := []string{}
	for _, p := range all {
		if p.Address != "" {
			names = append(names, p.Name)
		}
	}
	return names
}
