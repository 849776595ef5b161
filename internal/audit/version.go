package audit

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

var ruleVersion = rule{"SI009", Warning, "version", "pin it (a digest, an id, a version), and let a new one reach a few shards or one cell at a time"}

// version is one build that runs somewhere.
type version struct{ kind, text string }

// use is where a shard has it.
type versionUse struct {
	node int32
	at   string
}

var (
	assetFile = regexp.MustCompile(`[0-9a-f]{64}\.zip`)
	hashed    = regexp.MustCompile(`@sha256:[0-9a-f]{64}$|:[0-9a-f]{64}$`)
	amiID     = regexp.MustCompile(`^ami-[0-9a-f]{8,17}$`)
)

// pinned says whether the version stays what it is until somebody deploys another one.
func (v version) pinned() bool {
	switch v.kind {
	case "image":
		return hashed.MatchString(v.text)
	case "AMI":
		return amiID.MatchString(v.text)
	}
	return true
}

// versions are the builds that each shard runs: AMIs, images, layers, and the code and files in an asset.
func (g *graph) versions() map[version]map[int32]versionUse {
	found := map[version]map[int32]versionUse{}
	for i := range int32(len(g.nodes)) {
		n := &g.nodes[i]
		if n.shard < 0 || n.res == nil {
			continue
		}
		note := func(kind, text, at string) {
			v := version{kind, text}
			if found[v] == nil {
				found[v] = map[int32]versionUse{}
			}
			if _, ok := found[v][n.shard]; !ok {
				found[v][n.shard] = versionUse{i, at}
			}
		}
		each := func(kind string, v template.Node, at string) {
			for _, text := range g.scopes[n.stack].Eval(v) {
				if s, ok := text.Literal(); ok {
					s = strings.TrimSuffix(strings.TrimPrefix(s, "{{"), "}}")
					if s != "" {
						note(kind, s, at)
					}
				} else if len(text) == 1 { // a parameter that CloudFormation reads from the Parameter Store
					if p, ok := g.stacks[n.stack].Template.Parameter(text[0].Hole); ok && p.IsSSM() {
						if name, ok := g.scopes[n.stack].Value(p); ok {
							note(kind, "resolve:ssm:"+name, at)
						}
					}
				}
			}
		}
		files := func(v template.Node, at string) {
			for _, text := range g.scopes[n.stack].Eval(v) {
				for _, part := range text {
					for _, file := range assetFile.FindAllString(part.Literal, -1) {
						note("asset", file, at)
					}
				}
			}
		}
		machine := func(v template.Node, at string) {
			if image, ok := v.Get("ImageId"); ok {
				each("AMI", image, at+"ImageId")
			}
			if script, ok := v.Get("UserData"); ok {
				files(script, at+"UserData")
			}
		}
		props := n.res.Properties
		switch n.typ {
		case "AWS::EC2::LaunchTemplate":
			data, _ := props.Get("LaunchTemplateData")
			machine(data, "LaunchTemplateData.")
		case "AWS::EC2::Instance", "AWS::AutoScaling::LaunchConfiguration":
			machine(props, "")
		case typeFunction, "AWS::Serverless::Function":
			code, _ := props.Get("Code")
			if key, ok := code.Get("S3Key"); ok {
				each("asset", key, "Code.S3Key")
			}
			for _, image := range []struct {
				in template.Node
				at string
			}{{code, "Code.ImageUri"}, {props, "ImageUri"}} {
				if v, ok := image.in.Get("ImageUri"); ok {
					each("image", v, image.at)
				}
			}
			layers, _ := props.Get("Layers")
			for k := range layers.Len() {
				if layers.Kind() == template.List {
					each("layer", layers.At(k), fmt.Sprintf("Layers.%d", k))
				}
			}
		case "AWS::ECS::TaskDefinition":
			containers, _ := props.Get("ContainerDefinitions")
			for k := range containers.Len() {
				if containers.Kind() != template.List {
					break
				}
				if v, ok := containers.At(k).Get("Image"); ok {
					each("image", v, fmt.Sprintf("ContainerDefinitions.%d.Image", k))
				}
			}
		}
	}
	return found
}

// versionFindings are the versions that all shards of a cell run at once.
func (g *graph) versionFindings(fleet *Fleet) []finding {
	inCell := map[place]int{}
	for _, s := range g.shards {
		inCell[s.cell()]++
	}
	all := g.versions()
	var out []finding
	for _, v := range slices.SortedFunc(maps.Keys(all), func(a, b version) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.text, b.text))
	}) {
		uses := all[v]
		hit := map[place]int{}
		for shard := range uses {
			hit[g.shards[shard].cell()]++
		}
		whole := false
		for cell, n := range hit {
			whole = whole || n == inCell[cell] && n > 1
		}
		if !whole {
			continue
		}
		f := finding{rule: &ruleVersion, level: Info, node: -1, on: slices.Sorted(maps.Keys(uses)),
			resource: &Resource{Type: v.kind, Name: v.text}}
		for _, shard := range f.on {
			u := uses[shard]
			p := g.witness(g.shards[shard], []hop{{node: u.node}})
			p.Steps = append(p.Steps, Step{Kind: kindNames[externalNode], Type: v.kind, Name: v.text, How: howNames[byName], At: u.at})
			f.paths = append(f.paths, p)
			if len(uses)*len(all) > maxPaths && len(f.paths) == fewPaths {
				break
			}
		}
		cells := slices.SortedFunc(maps.Keys(hit), compareShards)
		f.message = fmt.Sprintf("%d of %d shards run %s %s at once", len(uses), len(g.shards), v.kind, quote(v.text))
		waves, atOnce := g.wavesOf(fleet, cells)
		f.message += waves
		switch {
		case !v.pinned():
			f.level = Warning
			f.message += "; it is not pinned, so that a new build reaches them without a deployment"
		case atOnce:
			f.level = Warning
			f.reason = "one wave of the rollout reaches all of its cells"
		case waves == "":
			f.reason = "it is pinned: a new version comes with a deployment; deploy that to one shard or cell at a time"
		default:
			f.reason = "it is pinned, and the rollout's waves bound what a new version reaches at once"
		}
		out = append(out, f)
	}
	return out
}

// wavesOf are the waves of a rollout that would give cells a new version, as a part of a sentence, and whether one
// wave reaches all of several cells.
func (g *graph) wavesOf(fleet *Fleet, cells []place) (text string, atOnce bool) {
	if len(g.fleetCells(fleet)) == 0 || len(fleet.Waves) == 0 {
		return "", false
	}
	has := map[string]bool{}
	for _, c := range cells {
		has[strings.TrimPrefix(c.Cell, fleet.Service+"-")] = true
	}
	var parts []string
	for i, wave := range fleet.Waves {
		var in []string
		for _, name := range wave {
			if has[name] {
				in = append(in, name)
			}
		}
		if len(in) > 0 {
			parts = append(parts, fmt.Sprintf("%d (%s)", i+1, strings.Join(in, ", ")))
		}
	}
	if len(parts) == 0 {
		return "", false
	}
	word := "waves"
	if len(parts) == 1 {
		word = "wave"
	}
	return fmt.Sprintf("; a bad one would break them in %s %s", word, strings.Join(parts, ", ")), len(parts) == 1 && len(cells) > 1
}
