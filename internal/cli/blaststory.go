package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/blast"
)

// storyNames are the words by which stories are asked for, in the order of blast.Stories.
var storyNames = []string{"machines", "shards", "workers"}

func blastStory(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "story [" + strings.Join(storyNames, " | ") + "]",
		Short: "Tell what the founding texts of shuffle sharding tell, by the same formulas",
		Long: `Tell what the founding texts of shuffle sharding tell, by the formulas of blast and plan:

  machines  eight machines, and one customer whose requests take down every machine that they reach
  shards    2,000 tenants on 16 shards with k = 1, 2 and 3
  workers   24 customers on 8 workers with k = 2: what schemes expect, and the pins by which nobody else is
            down, 10 are degraded and 13 untouched, whichever customer it is

Figures are shares of the tenants who did nothing wrong. With --json each line is an object.`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			stories := blast.Stories()
			names := storyNames
			if len(args) == 1 {
				i := slices.Index(storyNames, args[0])
				if i < 0 {
					return usagef("there is no story %q: there are %s", args[0], strings.Join(storyNames, ", "))
				}
				stories, names = stories[i:i+1], storyNames[i:i+1]
			}
			t := &planText{bars: barsFor(a.out)}
			for i, s := range stories {
				told := newStory(names[i], s)
				if asJSON {
					line, err := json.Marshal(told)
					if err != nil {
						return err
					}
					t.line("%s", line)
					continue
				}
				if i > 0 {
					t.line("")
				}
				told.print(t)
			}
			return t.writeTo(a.out)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// told is the JSON form of a story.
type told struct {
	Name  string     `json:"name"`
	Title string     `json:"title"`
	Text  string     `json:"text"`
	Rows  []storyRow `json:"rows"`
	Pins  []storyPin `json:"pins,omitempty"`
}

type storyRow struct {
	Layout      string  `json:"layout"`
	Shards      int     `json:"shards"`
	PerTenant   int     `json:"perTenant"`
	Failed      int     `json:"failed"`
	Others      int     `json:"others"` // tenants that the shares are of; 0 where the text names no number
	Down        float64 `json:"down"`
	Partly      float64 `json:"partly"`
	Untouched   float64 `json:"untouched"`
	FailRetried float64 `json:"failRetried"` // share of their requests that fail, with retries
	FailOnce    float64 `json:"failOnce"`    // and without
}

type storyPin struct {
	Tenant string `json:"tenant"`
	Shards []int  `json:"shards"`
}

func newStory(name string, s blast.Story) told {
	t := told{Name: name, Title: s.Name, Text: s.Text}
	for _, r := range s.Rows {
		t.Rows = append(t.Rows, storyRow(r))
	}
	if name == "workers" {
		for _, p := range blast.StoryPins() {
			t.Pins = append(t.Pins, storyPin(p))
		}
	}
	return t
}

func (s told) print(t *planText) {
	t.line("%s: %s", s.Title, s.Text)
	t.table(func(line func(string, ...any)) {
		line("layout\tn\tk\tfailed\tdown\tpartly\tuntouched\trequests failed, retried\tnot retried")
		for _, r := range s.Rows {
			of := func(share float64) string {
				if r.Others == 0 {
					return percentage(share)
				}
				return fmt.Sprintf("%s (%.2f of %s)", percentage(share), share*float64(r.Others), grouped(float64(r.Others)))
			}
			line("%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s", r.Layout, r.Shards, r.PerTenant, r.Failed, of(r.Down), of(r.Partly), of(r.Untouched), percentage(r.FailRetried), percentage(r.FailOnce))
		}
	})
	if s.Pins == nil {
		return
	}
	t.line("  the pins:")
	t.table(func(line func(string, ...any)) {
		for pins := range slices.Chunk(s.Pins, 6) {
			var row []string
			for _, p := range pins {
				row = append(row, fmt.Sprintf("%s %s", p.Tenant, joinInts(p.Shards, " ")))
			}
			line("%s", strings.Join(row, "\t"))
		}
	})
}
