package audit

import (
	"cmp"
	"regexp"
	"strings"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/template"
)

// Shard is one shard of one cell. Service is "" when nothing says it.
type Shard struct {
	Service string `json:"service,omitempty"`
	Cell    string `json:"cell"`
	ID      string `json:"shard"`
}

// String is CELL/SHARD, or what is known of it.
func (s Shard) String() string {
	switch {
	case s.Cell == "":
		return s.ID
	case s.ID == "":
		return s.Cell
	}
	return s.Cell + "/" + s.ID
}

func compareShards(a, b Shard) int {
	return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Cell, b.Cell), strings.Compare(a.ID, b.ID))
}

// nowhere says whether it is neither a shard's nor a cell's.
func (s Shard) nowhere() bool { return s.Cell == "" && s.ID == "" }

// place is what is known of where a stack or a resource belongs; ID is "" outside of shards.
type place = Shard

var (
	shardStack = regexp.MustCompile(`^(.+?)-shard-([A-Za-z0-9][A-Za-z0-9-]*)$`)
	coreStack  = regexp.MustCompile(`^(.+)-core$`)
)

// Places says where each stack belongs, in the order of the stacks: ID is "" outside of shards, and Cell, too,
// outside of cells.
func Places(stacks []Stack) []Shard { return placesOf(stacks, newMapping(nil)) }

// placesOf says where each stack belongs: by the mapping, then by its tags, then by what all tagged resources
// in it agree on, then by its construct path, then by its name.
func placesOf(stacks []Stack, m *mapping) []place {
	places := make([]place, len(stacks))
	byPrefix := map[string]place{} // SERVICE-CELL, as it leads stack names, to a place that is known better
	for i := range stacks {
		s := &stacks[i]
		p := placeOfTags(s.Tags)
		if q := agreed(s); q != (place{}) {
			p.Service = cmp.Or(p.Service, q.Service)
			p.Cell = cmp.Or(p.Cell, q.Cell)
			p.ID = cmp.Or(p.ID, q.ID)
		}
		if q := placeOfPath(s.Path); q.Cell != "" {
			p.Cell = cmp.Or(p.Cell, q.Cell)
			p.ID = cmp.Or(p.ID, q.ID)
		}
		mapped := m.stack(s, s.scope())
		p = m.over(mapped, p, s.File, "", "its tags or its path")
		if p.Service == "" && p.Cell != "" && mapped.Cell == "" {
			if service, _, ok := strings.Cut(s.Name, "-"+p.Cell+"-"); ok {
				p.Service = service
			}
		}
		if p.Service != "" && p.Cell != "" {
			byPrefix[p.Service+"-"+p.Cell] = place{Service: p.Service, Cell: p.Cell}
		}
		if prefix, _, ok := takeApart(s); ok && mapped.Cell != "" { // what the others of its prefix are, too
			byPrefix[prefix] = place{Service: p.Service, Cell: p.Cell}
		}
		places[i] = p
	}
	for i := range stacks {
		p := &places[i]
		if p.Cell != "" {
			continue
		}
		prefix, id, ok := takeApart(&stacks[i])
		if !ok {
			continue
		}
		known, ok := byPrefix[prefix]
		if !ok {
			known = place{Service: p.Service, Cell: prefix} // where the service ends, the name does not say
		}
		p.Service, p.Cell = known.Service, known.Cell
		p.ID = cmp.Or(p.ID, id)
	}
	return places
}

// takeApart takes the name SERVICE-CELL-shard-SID or SERVICE-CELL-core of a stack apart.
func takeApart(s *Stack) (prefix, id string, ok bool) {
	name := s.ownName()
	if m := shardStack.FindStringSubmatch(name); m != nil {
		return m[1], m[2], true
	}
	if m := coreStack.FindStringSubmatch(name); m != nil {
		return m[1], "", true
	}
	return "", "", false
}

// agreed is the place that the tags of all tagged resources of a stack name, as far as they agree.
func agreed(s *Stack) place {
	var p place
	sc := s.scope()
	first := true
	for i := range s.Template.Resources {
		tags := tagsOf(&s.Template.Resources[i], sc, nil)
		if len(tags) == 0 {
			continue
		}
		q := placeOfTags(tags)
		if first {
			p, first = q, false
		}
		if q.Service != p.Service {
			p.Service = ""
		}
		if q.Cell != p.Cell {
			p.Cell = ""
		}
		if q.ID != p.ID || p.Cell == "" {
			p.ID = ""
		}
	}
	return p
}

func placeOfTags(tags map[string]string) place {
	return place{Service: tags[names.TagService], Cell: tags[names.TagCell], ID: tags[names.TagShard]}
}

// placeOfPath finds CELL/shard-SID or CELL/core in a construct path.
func placeOfPath(path string) place {
	if !strings.Contains(path, "/") {
		return place{}
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if i == 0 {
			continue
		}
		if id, ok := strings.CutPrefix(s, "shard-"); ok && id != "" {
			return place{Cell: segments[i-1], ID: id}
		}
	}
	if len(segments) > 1 && segments[1] == "core" {
		return place{Cell: segments[0]}
	}
	return place{}
}

// placeOfResource is where one resource of a stack belongs: by the mapping, its own tags, its construct path,
// else with its stack.
func (m *mapping) placeOfResource(s *Stack, id, path string, stack place, tags map[string]string) place {
	own := placeOfTags(tags)
	if own.ID == "" {
		if q := placeOfPath(path); q.ID != "" {
			own.Cell, own.ID = cmp.Or(own.Cell, q.Cell), q.ID
		}
	}
	p := own
	if len(m.rules) > 0 {
		p = m.over(m.resource(s, id, path, tags), own, s.File, id, "its tags or its path")
	}
	p.Service = cmp.Or(p.Service, stack.Service)
	p.Cell = cmp.Or(p.Cell, stack.Cell)
	p.ID = cmp.Or(p.ID, stack.ID)
	return p
}

// tagsOf reads cellwall's own tags of a resource and those of more, in either of the two forms that
// CloudFormation knows.
func tagsOf(r *template.Resource, sc template.Scope, more map[string]bool) map[string]string {
	n, ok := r.Properties.Get("Tags")
	if !ok {
		return nil
	}
	var tags map[string]string
	set := func(key string, value template.Node) {
		if !strings.HasPrefix(key, "cellwall:") && !more[key] {
			return
		}
		if v, ok := oneText(sc, value); ok {
			if tags == nil {
				tags = map[string]string{}
			}
			tags[key] = v
		}
	}
	for i := range n.Len() {
		if n.Kind() == template.Map {
			set(n.Key(i), n.At(i))
			continue
		}
		tag := n.At(i)
		if key := tag.GetString("Key"); key != "" {
			set(key, tag.Below("Value"))
		}
	}
	return tags
}

// oneText is the text of an expression that stands for exactly one known string; a string as it is written, which most
// are, needs no evaluation.
func oneText(sc template.Scope, n template.Node) (string, bool) {
	if s, ok := n.Scalar(); ok {
		return s, true
	}
	return single(sc.Eval(n))
}

// single is the text of an expression that stands for exactly one known string.
func single(ts []template.Text) (string, bool) {
	if len(ts) != 1 {
		return "", false
	}
	return ts[0].Literal()
}
