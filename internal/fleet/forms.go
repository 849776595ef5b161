package fleet

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// maxShards bounds the shards of a cell: more than any template, quota or subset makes sense for, and
// few enough that a slip of the finger does not fill the memory.
const maxShards = 1000

// decode reads 15%, 0.5% or 0%.
func (p *Percent) decode(d *decoder, path string, n *node) bool {
	const want, fix = "a percentage from 0% to 100%, with at most two decimals", "write it with its sign, such as 15% or 0.5%"
	digits, signed := strings.CutSuffix(n.text, "%")
	whole, fraction, point := strings.Cut(digits, ".")
	if n.kind != scalar || !signed || !decimal(whole, 1, 3) || len(whole) > 1 && whole[0] == '0' || point && !decimal(fraction, 1, 2) {
		return d.refuse(path, n, want, fix)
	}
	i, _ := strconv.Atoi(whole + (fraction + "00")[:2])
	if i > 10000 {
		return d.refuse(path, n, want, fix)
	}
	*p = Percent(i)
	return true
}

// decimal tells whether s has between least and most digits and nothing else.
func decimal(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && strings.Trim(s, "0123456789") == ""
}

// String returns 15% for 1500.
func (p Percent) String() string {
	if p%100 == 0 {
		return fmt.Sprintf("%d%%", p/100)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%02d", p/100, p%100), "0") + "%"
}

// MarshalYAML returns the form that a fleet file has.
func (p Percent) MarshalYAML() (any, error) { return p.String(), nil }

// Fraction returns the share between 0 and 1.
func (p Percent) Fraction() float64 { return float64(p) / 10000 }

// decode reads per-shard, shared or {grouped: m}.
func (i *Ingress) decode(d *decoder, path string, n *node) bool {
	const want, fix = "per-shard, shared or {grouped: m}", "write per-shard, shared or {grouped: 4}"
	switch {
	case n.kind == scalar && (n.text == string(IngressPerShard) || n.text == string(IngressShared)):
		*i = Ingress{Kind: IngressKind(n.text)}
		return true
	case n.kind != mapping:
		return d.refuse(path, n, want, fix)
	}
	var g grouped
	if !d.structure(path, n, reflect.ValueOf(&g).Elem()) {
		return false
	}
	*i = Ingress{Kind: IngressGrouped, Group: g.Grouped}
	return true
}

// grouped is the mapping form of Ingress.
type grouped struct {
	Grouped int `yaml:"grouped" jsonschema:"minimum=2,maximum=100"`
}

// String returns the form that a message has.
func (i Ingress) String() string {
	if i.Kind == IngressGrouped {
		return fmt.Sprintf("{grouped: %d}", i.Group)
	}
	return string(i.Kind)
}

// MarshalYAML returns the form that a fleet file has.
func (i Ingress) MarshalYAML() (any, error) {
	if i.Kind == IngressGrouped {
		return grouped{i.Group}, nil
	}
	return string(i.Kind), nil
}

// decode reads a count, which gives s01, s02 and on, or a list of {id, zone, weight}. The zones that
// the file does not give are dealt round in complete, once the cell's own are known.
func (s *Shards) decode(d *decoder, path string, n *node) bool {
	least, most := 1, maxShards
	if n.kind == sequence {
		specs := []ShardSpec(*s)
		ok := d.list(path, n, reflect.ValueOf(&specs).Elem(), described{min: &least, max: &most})
		*s = specs
		return ok
	}
	if n.kind != scalar {
		return d.refuse(path, n, "a count or a list", "write a number, or a list of {id: s01, zone: a, weight: 1}")
	}
	var count int
	if !d.integer(path, n, reflect.ValueOf(&count).Elem(), described{min: &least, max: &most}) {
		return false
	}
	*s = make(Shards, count)
	for i := range *s {
		(*s)[i] = ShardSpec{ID: CountedShard(i), Weight: 1}
	}
	return true
}

// CountedShard is the id of the shard with index i, from 0, in a cell that gives its shards as a count.
func CountedShard(i int) string { return fmt.Sprintf("s%02d", i+1) }

// IDs returns the shards' ids in the order of the file.
func (s Shards) IDs() []string {
	ids := make([]string, len(s))
	for i := range s {
		ids[i] = s[i].ID
	}
	return ids
}
