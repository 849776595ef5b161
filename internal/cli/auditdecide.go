package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/audit"
)

// auditDecisions are the files that decide which findings do not count.
type auditDecisions struct {
	waivers  string
	baseline string
}

func (d *auditDecisions) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.waivers, "waivers", "", "YAML `FILE` of findings that are accepted, each with a reason and a last day")
	cmd.Flags().StringVar(&d.baseline, "baseline", "", "former JSON report `FILE`: only what is new or worse than in it counts")
}

// maxBaseline bounds a former report, in bytes.
const maxBaseline = 512 << 20

func (d *auditDecisions) apply(_ *cobra.Command, _ []audit.Variant, opt *audit.Options) error {
	opt.Today = time.Now()
	if d.waivers != "" {
		data, err := readSmall(d.waivers)
		if err != nil {
			return hint(usagef("--waivers: %w", err), "docs/audit.md shows such a file")
		}
		if opt.Waivers, err = audit.ParseWaivers(d.waivers, data); err != nil {
			return hint(usagef("%w", err), "docs/audit.md shows such a file")
		}
	}
	if d.baseline != "" {
		var err error
		if opt.Baseline, err = readBaseline(d.baseline); err != nil {
			return hint(usagef("--baseline %s: %w", d.baseline, err), "cellwall audit --json -o FILE DIR makes one")
		}
	}
	return nil
}

func readBaseline(file string) (*audit.Baseline, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBaseline+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxBaseline {
		return nil, fmt.Errorf("more than %d MiB", maxBaseline>>20)
	}
	return audit.ReadBaseline(data)
}
