package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// samples returns valid fleet files of different makes.
func samples(t testing.TB) []string {
	t.Helper()
	files := []string{base, everything}
	for _, name := range []string{"../../fleet.yaml", "testdata/design.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(data))
	}
	return files
}

// broken damages a sample in a few places: that gives files which are wrong in the ways that people's
// and merges' are, rather than noise.
func broken(samples []string) *rapid.Generator[string] {
	scraps := []string{"", " ", "\n", ":", "-", "{", "}", "[", "]", ",", "\"", "'", "#", "&a ", "*a", "!!str ", "%", "|", ">", "?", "~", "\t", "\r\n",
		"0", "-1", "1000000", "010", "eu-1", "s01", "percent: 100", "shards: 1", "{}", "[]", "null", "é", "\u2028", "\xff", "---\n", "<<: "}
	return rapid.Custom(func(t *rapid.T) string {
		file := rapid.SampledFrom(samples).Draw(t, "sample")
		for range rapid.IntRange(0, 4).Draw(t, "damages") {
			from := rapid.IntRange(0, len(file)).Draw(t, "from")
			to := min(len(file), from+rapid.IntRange(0, 12).Draw(t, "length"))
			file = file[:from] + rapid.SampledFrom(scraps).Draw(t, "scrap") + file[to:]
		}
		return file
	})
}

// guaranteed parses the file and returns the first guarantee that does not hold, or nil.
func guaranteed(file string) error {
	f, err := Parse("f.yaml", []byte(file))
	again, errAgain := Parse("f.yaml", []byte(file))
	if !reflect.DeepEqual(f, again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
		return fmt.Errorf("not deterministic: %v, then %v", err, errAgain)
	}
	if err != nil {
		return inside(file, err)
	}
	for _, rule := range []func(*Fleet) error{roundTrip, wholeWaves, withinQuota, withinRules, enoughShards, distinct} {
		if err := rule(f); err != nil {
			return err
		}
	}
	return nil
}

func inside(file string, err error) error {
	faults, ok := errors.AsType[Faults](err)
	if !ok || len(faults) == 0 {
		return fmt.Errorf("Parse returned %#v, want Faults", err)
	}
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(file, "\ufeff")), "\n")
	for _, f := range faults {
		if f.Line < 1 || f.Line > len(lines) || f.Col < 1 || f.Col > utf8.RuneCountInString(lines[f.Line-1])+1 {
			return fmt.Errorf("outside of %d lines: %v", len(lines), f)
		}
		if f.What == "" || f.Why == "" || f.Fix == "" || strings.ContainsAny(f.Error(), "\n\r") {
			return fmt.Errorf("not a whole sentence in one line: %q", f.Error())
		}
	}
	return nil
}

func roundTrip(f *Fleet) error {
	written, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write the fleet: %w", err)
	}
	back, err := Parse("f.yaml", written)
	if err != nil {
		return fmt.Errorf("parse the written fleet: %w\n%s", err, written)
	}
	back.Notes = f.Notes // defaults that are written out may be noted
	if diff := cmp.Diff(f, back); diff != "" {
		return fmt.Errorf("the written fleet differs (-first +again):\n%s", diff)
	}
	return nil
}

func wholeWaves(f *Fleet) error {
	var got, want []string
	for i, w := range f.Resolve() {
		if len(w.Cells) == 0 {
			return fmt.Errorf("wave %d is empty", i)
		}
		got = append(got, w.Cells...)
	}
	for _, c := range f.Cells {
		want = append(want, c.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("the waves reach %v, want %v", got, want)
	}
	return nil
}

func withinQuota(f *Fleet) error {
	sums := map[string]int{}
	for _, c := range f.Cells {
		key := c.Account + " " + c.Region
		sums[key] += f.Router.ReservedConcurrency + 1 // the keeper
		if f.Shard.Lambda != nil {
			sums[key] += f.Shard.Lambda.ReservedConcurrency * len(c.Shards)
		}
		limit := 1000
		if a, ok := f.Accounts[c.Account]; ok {
			limit = a.LambdaConcurrency
		}
		if sums[key] > limit-100 {
			return fmt.Errorf("%s reserves %d of %d", key, sums[key], limit)
		}
	}
	return nil
}

func withinRules(f *Fleet) error {
	sums := map[string]int{}
	if f.FrontDoor != nil {
		for _, region := range append([]string{f.Directory.Region}, f.Directory.Replicas...) {
			sums[f.Directory.Account+" "+region]++
		}
	}
	for _, c := range f.Cells {
		key := c.Account + " " + c.Region
		sums[key] += 1 + len(c.Shards)*len(f.Shard.Schedules)
		limit := 300
		if a := f.Accounts[c.Account]; a.EventRules > 0 {
			limit = a.EventRules
		} else if c.Region == "af-south-1" || c.Region == "eu-south-1" {
			limit = 100
		}
		if sums[key] > limit {
			return fmt.Errorf("%s has %d rules, and takes %d", key, sums[key], limit)
		}
	}
	return nil
}

func enoughShards(f *Fleet) error {
	ks := []int{f.Placement.PerTenant}
	for _, s := range f.Placement.Sizes {
		ks = append(ks, s.PerTenant)
	}
	for _, c := range f.Cells {
		if slices.Min(ks) < 1 || slices.Max(ks) > len(c.Shards) {
			return fmt.Errorf("cell %s has %d shards for %v", c.Name, len(c.Shards), ks)
		}
	}
	return nil
}

func distinct(f *Fleet) error {
	seen := map[string]bool{}
	for _, n := range f.Names().All() {
		seen[n.Space+n.Name] = true
	}
	for _, c := range f.Cells {
		all := f.NamesOf(c).All()
		for _, s := range c.Shards {
			all = append(all, f.NamesOf(c).Shard(s.ID).All(c.Account, c.Region)...)
			for _, schedule := range f.Shard.Schedules {
				all = append(all, names.Named{Space: "rule", Name: f.NamesOf(c).Shard(s.ID).Schedule(schedule.Name)})
			}
		}
		for _, n := range all {
			if seen[n.Space+n.Name] {
				return fmt.Errorf("two resources have the %s %s", n.Space, n.Name)
			}
			seen[n.Space+n.Name] = true
		}
	}
	return nil
}

func TestGuarantees(t *testing.T) {
	damaged := broken(samples(t))
	valid := 0
	rapid.Check(t, func(t *rapid.T) {
		file := damaged.Draw(t, "file")
		if _, err := Parse("f.yaml", []byte(file)); err == nil {
			valid++
		}
		if err := guaranteed(file); err != nil {
			t.Fatalf("%v\nfile:\n%s", err, file)
		}
	})
	t.Logf("%d files were valid", valid)
	if valid == 0 {
		t.Error("no file was valid, so guarantees 3 to 7 were not tested")
	}
}

// TestRandomFleets draws valid and nearly valid fleets rather than damaged files: the rules between
// values see more of the numbers.
func TestRandomFleets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	valid := 0
	for range 500 {
		file := randomFleet(r)
		if _, err := Parse("f.yaml", []byte(file)); err == nil {
			valid++
		}
		if err := guaranteed(file); err != nil {
			t.Fatalf("%v\nfile:\n%s", err, file)
		}
	}
	if valid < 50 || valid > 450 {
		t.Errorf("%d of 500 files were valid, want both kinds", valid)
	}
}

func randomFleet(r *rand.Rand) string {
	var b strings.Builder
	fmt.Fprintf(&b, "service: svc\ndirectory: {account: \"111111111111\", region: eu-west-1}\nauth: {issuer: https://a.b/, audience: a}\n")
	fmt.Fprintf(&b, "accounts: {\"111111111111\": {lambdaConcurrency: %d}}\n", 500+r.IntN(2000))
	fmt.Fprintf(&b, "placement: {perTenant: %d, sizes: {big: {perTenant: %d}}}\n", 1+r.IntN(3), 1+r.IntN(4))
	reserved := 1 + r.IntN(30)
	fmt.Fprintf(&b, "router: {reservedConcurrency: %d}\nshard:\n  lambda: {asset: a, reservedConcurrency: %d}\n  queue: {consumers: %d}\n", 1+r.IntN(200), reserved, 2+r.IntN(max(1, reserved)))
	if n := r.IntN(6); n > 0 { // names that meet those of other shards and cells once hyphens join them
		fmt.Fprintf(&b, "  schedules: [%s]\n", strings.Join([]string{"{name: a, every: 1h}", "{name: b-tick-a, every: 2h}", "{name: tick-a, every: 1m}", "{name: b, every: 24h}", "{name: s04, every: 5m}"}[:n], ", "))
	}
	b.WriteString("cells:\n")
	cells := []string{"a", "a-shard", "a-b", "b", "c"}[:1+r.IntN(5)]
	for _, name := range cells {
		shards := fmt.Sprint(2 + r.IntN(12))
		if r.IntN(3) == 0 {
			shards = "[{id: core}, {id: b, weight: 3}, {id: lb, zone: a}, {id: s04}]"
			if r.IntN(3) == 0 {
				shards = "[{id: core}, {id: s04-tick-b}, {id: lb}, {id: s04}]"
			}
		}
		fmt.Fprintf(&b, "  - {name: %s, account: \"111111111111\", region: %s, zones: [a, b], shards: %s}\n", name, []string{"eu-west-1", "us-east-1", "af-south-1"}[r.IntN(3)], shards)
	}
	switch r.IntN(3) {
	case 0:
		fmt.Fprintf(&b, "rollout: {waves: [{percent: %d, bake: 30m}, {percent: 100}]}\n", 1+r.IntN(99))
	case 1:
		fmt.Fprintf(&b, "rollout: {waves: [{cells: [%s]}, {percent: %d}, {percent: 100}]}\n", cells[0], 1+r.IntN(99))
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	for _, s := range samples(f) {
		f.Add([]byte(s))
	}
	for _, c := range slices.Concat(decodingFaults, ruleFaults, routingFaults, cellFaults) {
		file := c.new
		if c.old != "" {
			file = strings.Replace(base, c.old, c.new, 1)
		}
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := guaranteed(string(data)); err != nil {
			t.Fatal(err)
		}
	})
}
