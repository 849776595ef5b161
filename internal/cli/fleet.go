package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/fleet"
)

// loadFleet reads the file that --fleet names. Its faults go to standard error, one a line.
func (a *app) loadFleet() (*fleet.Fleet, error) { return a.loadFleetFrom(a.fleetFile) }

func (a *app) loadFleetFrom(file string) (*fleet.Fleet, error) {
	f, err := fleet.Load(file)
	return f, a.fleetError(file, err)
}

// fleetError is the error of a fleet file that cannot be used; its faults go to standard error.
func (a *app) fleetError(file string, err error) error {
	if err == nil {
		return nil
	}
	faults, ok := errors.AsType[fleet.Faults](err)
	if !ok {
		return hint(usagef("%w", err), "name the fleet's description with --fleet FILE; docs/fleet.md has a sample")
	}
	for _, f := range faults {
		fmt.Fprintln(a.err, f.Error())
	}
	return usagef("%s has %s", file, count(len(faults), "fault"))
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func fleetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Check the fleet's description, say what a change of it does, pin its machine images, or print its schema",
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(fleetDiff(a), fleetPinAMI(a), fleetValidate(a), fleetSchema(a))
	return cmd
}

func fleetSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of fleet files",
		Args:  exactly(0),
		RunE: func(*cobra.Command, []string) error {
			data, err := fleet.Schema()
			if err != nil {
				return err
			}
			_, err = a.out.Write(data)
			return err
		},
	}
}

func fleetValidate(a *app) *cobra.Command {
	var asJSON bool
	in := &directoryFlags{app: a}
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a fleet file and sum up what it describes",
		Long: `Check a fleet file, by default the one that --fleet names, and sum up what it describes.

Every fault goes to standard error in a line of its own: file:line:col: what: why; what to write instead.
With --json the answer, faults included, is one JSON object on standard output. Exit status 2 when the
file cannot be read or has faults.

With --directory it is checked, too, that no cell has lost a shard which a topology of that directory
names: exit status 3. cdk synth cannot see that, since it looks nothing up.`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := a.fleetFile
			if len(args) == 1 {
				file = args[0]
			}
			if asJSON {
				if err := a.validateJSON(file); err != nil {
					return err
				}
				return in.noneLost(cmd, file)
			}
			f, err := a.loadFleetFrom(file)
			if err != nil {
				return err
			}
			if err := in.noneLost(cmd, file); err != nil {
				return err
			}
			for _, n := range f.Notes {
				fmt.Fprintf(a.err, "%s:%d:%d: note: %s\n", file, n.Line, n.Col, n.Text)
			}
			return summarise(a.out, f)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	in.register(cmd)
	return cmd
}

// summary is the JSON form of fleet validate.
type summary struct {
	File        string        `json:"file"`
	Valid       bool          `json:"valid"`
	Faults      fleet.Faults  `json:"faults"`
	Notes       []fleet.Note  `json:"notes"`
	Service     string        `json:"service,omitempty"`
	Cells       []cellSummary `json:"cells,omitempty"`
	Waves       []waveSummary `json:"waves,omitempty"`
	Concurrency []fleet.Use   `json:"concurrency,omitempty"`
}

type waveSummary struct {
	Cells       []string `json:"cells"`
	BakeSeconds float64  `json:"bakeSeconds"`
	// Reached is the percentage of all shards that this wave and those before it reach.
	Reached float64 `json:"shardsReachedPercent"`
}

type cellSummary struct {
	Name    string   `json:"name"`
	Account string   `json:"account"`
	Region  string   `json:"region"`
	Zones   []string `json:"zones"`
	Shards  []string `json:"shards"`
}

func (a *app) validateJSON(file string) error {
	s := summary{File: file, Faults: fleet.Faults{}, Notes: []fleet.Note{}}
	f, err := fleet.Load(file)
	if err != nil {
		faults, ok := errors.AsType[fleet.Faults](err)
		if !ok {
			return hint(usagef("%w", err), "name the fleet's description as FILE or with --fleet FILE; docs/fleet.md has a sample")
		}
		s.Faults = faults
	} else {
		s.Valid, s.Service, s.Concurrency = true, f.Service, f.Concurrency()
		s.Notes = append(s.Notes, f.Notes...)
		for _, w := range f.Resolve() {
			s.Waves = append(s.Waves, waveSummary{w.Cells, w.Bake.Seconds(), float64(w.Share) / 100})
		}
		for _, c := range f.Cells {
			s.Cells = append(s.Cells, cellSummary{c.Name, c.Account, c.Region, c.ZoneNames(), c.Shards.IDs()})
		}
	}
	if err := json.NewEncoder(a.out).Encode(s); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if !s.Valid {
		return usagef("%s has %s", file, count(len(s.Faults), "fault"))
	}
	return nil
}

// summarise prints what a valid fleet describes.
func summarise(out io.Writer, f *fleet.Fleet) error {
	shards := 0
	for _, c := range f.Cells {
		shards += len(c.Shards)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "service %s: %s, %s\n", f.Service, count(len(f.Cells), "cell"), count(shards, "shard"))
	fmt.Fprintln(w, "\ncell\taccount\tregion\tzones\tshards")
	for _, c := range f.Cells {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", c.Name, c.Account, c.Region, strings.Join(c.Zones, " "), len(c.Shards))
	}
	fmt.Fprintln(w, "\nwave\tcells\tshards reached\tbake")
	for i, wave := range f.Resolve() {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", i+1, strings.Join(wave.Cells, " "), wave.Share, wave.Bake)
	}
	fmt.Fprintln(w, "\naccount\tregion\treserved concurrency\tof\tstill to reserve")
	for _, u := range f.Concurrency() {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", u.Account, u.Region, u.Reserved, u.Limit, u.Left)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}
