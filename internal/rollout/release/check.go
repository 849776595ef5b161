package release

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/template"
)

// Refusal is every reason for which an assembly does not fit. errors.Is(err, ErrRefused).
type Refusal struct{ Reasons []string }

func (r *Refusal) Error() string {
	return fmt.Sprintf("%v: %s", ErrRefused, strings.Join(r.Reasons, "; "))
}
func (r *Refusal) Unwrap() error { return ErrRefused }

// Check says whether an assembly may be rolled out over a fleet, and all that is against it: a *Refusal.
func Check(f *fleet.Fleet, a *Assembly) error {
	c := &check{fleet: f, a: a}
	c.whole()
	c.stacks()
	for _, cell := range f.Cells {
		c.cell(cell)
	}
	c.assets()
	for i := range a.stacks {
		c.pinned(&a.stacks[i])
	}
	if len(c.reasons) == 0 {
		return nil
	}
	const most = 50
	if more := len(c.reasons) - most; more > 0 {
		c.reasons = append(c.reasons[:most:most], fmt.Sprintf("and %d more reasons", more))
	}
	return &Refusal{c.reasons}
}

type check struct {
	fleet   *fleet.Fleet
	a       *Assembly
	reasons []string
}

// no notes a reason. What names stand in it are the assembly's, and must not steer a terminal.
func (c *check) no(format string, args ...any) {
	c.reasons = append(c.reasons, strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, fmt.Sprintf(format, args...)))
}

// whole sees that nothing was missing at synthesis.
func (c *check) whole() {
	if len(c.a.missing) > 0 {
		c.no("the context %s was missing at synthesis, and dummy values stand in its place: synthesise again where it can be looked up", list(c.a.missing))
	}
}

// ids are characters that the CDK's command line takes for nothing else than themselves.
var ids = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_/-]*$`)

// stacks sees that all stacks are this service's, each once, and have something in them.
func (c *check) stacks() {
	var others []string
	seen := map[string]bool{}
	for _, s := range c.a.stacks {
		if s.Service != c.fleet.Service {
			service := s.Service
			if service == "" {
				service = "no service of cellwall"
			}
			others = append(others, fmt.Sprintf("%s (of %s)", s.Name, service))
			continue
		}
		if !ids.MatchString(s.ID) {
			c.no("stack %s has the id %q, which the CDK's command line may take for several", s.Name, s.ID)
		}
		if s.Place == (Place{}) {
			c.no("stack %s has no account and region: it would go where the credentials lead", s.Name)
		}
		for _, twice := range []string{"name " + s.Name + " " + s.Place.String(), "id " + s.ID} {
			if seen[twice] {
				c.no("two stacks have the %s", twice)
			}
			seen[twice] = true
		}
		if n, _ := s.root.Get("Resources"); n.Len() == 0 {
			c.no("stack %s has no resources: the CDK's command line would delete it instead of deploying", s.Name)
		}
		if _, ok := c.fleet.Cell(s.Cell); s.Cell != "" && !ok {
			c.no("stack %s is of cell %s, which the fleet does not have: the fleet changed since the assembly was synthesised, or the other way round", s.Name, s.Cell)
		}
	}
	if len(others) > 0 {
		c.no("it is not of service %s: %s", c.fleet.Service, list(others))
	}
}

// cell sees that a cell has exactly the stacks that the fleet says, where it says.
func (c *check) cell(cell fleet.Cell) {
	n := c.fleet.NamesOf(cell)
	want := map[string]bool{n.Stack(): true, n.WatchStack(): true}
	for _, s := range cell.Shards {
		want[n.Shard(s.ID).Stack()] = true
	}
	var extra []string
	for i := range c.a.stacks {
		s := &c.a.stacks[i]
		if s.Service != c.fleet.Service || s.Cell != cell.Name {
			continue
		}
		if stageOf(c.fleet, cell, *s) == "" {
			extra = append(extra, s.Name)
			continue
		}
		delete(want, s.Name)
		if s.Place != (Place{cell.Account, cell.Region}) {
			c.no("stack %s lies in %s, and the fleet has cell %s in %s/%s", s.Name, s.Place, cell.Name, cell.Account, cell.Region)
		}
		if s.Name == n.Stack() {
			c.zones(cell, s)
		}
	}
	if len(want) > 0 {
		c.no("cell %s is not whole: %s missing; synthesise all of the fleet (cdk synth '**', without -c cell=)", cell.Name, list(keys(want)))
	}
	if len(extra) > 0 {
		c.no("cell %s has %s, which the fleet does not: the fleet changed since the assembly was synthesised", cell.Name, list(extra))
	}
}

// zones sees that a cell's own network is in the zones of the fleet.
func (c *check) zones(cell fleet.Cell, core *Stack) {
	got := map[string]bool{}
	resources, _ := core.root.Get("Resources")
	for i := range resources.Len() {
		r := resources.At(i)
		if properties, ok := r.Get("Properties"); ok && r.GetString("Type") == "AWS::EC2::Subnet" {
			got[properties.GetString("AvailabilityZone")] = true
		}
	}
	have, want := keys(got), slices.Sorted(slices.Values(cell.ZoneNames()))
	if len(have) > 0 && !slices.Equal(have, want) {
		c.no("the network of cell %s is in %s, and the fleet has %s: the fleet changed since the assembly was synthesised", cell.Name, list(have), list(want))
	}
}

var assetHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// assets sees that everything that is published is a file that is there, under its hash.
func (c *check) assets() {
	for _, a := range c.a.assets {
		switch {
		case a.image:
			c.no("%s: the image %s would be built when it is deployed: only files are pinned", a.manifest, a.id)
		case a.command:
			c.no("%s: the asset %s is made by a command when it is deployed: only files are pinned", a.manifest, a.id)
		case !a.there:
			c.no("%s: the file of asset %s, %s, is missing", a.manifest, a.id, a.path)
		case !assetHash.MatchString(a.id) || slices.ContainsFunc(a.objects, func(o stored) bool { return !strings.Contains(path.Base(o.key), a.id) }):
			c.no("%s: the asset %s is not named by its hash", a.manifest, a.id)
		}
	}
}

// pinned sees that a template means the same whenever it is deployed.
func (c *check) pinned(s *Stack) {
	p := pins{stack: s, objects: c.a.objects()}
	parameters, _ := s.root.Get("Parameters")
	for i := range parameters.Len() {
		p.parameter(parameters.Key(i), parameters.At(i))
	}
	resources, _ := s.root.Get("Resources")
	for i := range resources.Len() {
		p.resource(resources.Key(i), resources.At(i))
	}
	for _, reason := range p.reasons {
		c.no("stack %s: %s", s.Name, reason)
	}
}

// objects are what the assembly publishes.
func (a *Assembly) objects() map[stored]bool {
	all := map[stored]bool{}
	for _, x := range a.assets {
		for _, o := range x.objects {
			all[o] = true
		}
	}
	return all
}

type pins struct {
	stack   *Stack
	objects map[stored]bool
	reasons []string
}

func (p *pins) no(format string, args ...any) {
	p.reasons = append(p.reasons, fmt.Sprintf(format, args...))
}

func (p *pins) parameter(id string, n template.Node) {
	kind, value := n.GetString("Type"), n.GetString("Default")
	switch {
	case kind == "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>":
		p.no("parameter %s is an image that SSM names when it is deployed: pin it in the fleet (cellwall fleet pin-ami)", id)
	case strings.HasPrefix(kind, "AWS::SSM::Parameter::Value<") && strings.HasPrefix(value, "/aws/service/"):
		p.no("parameter %s is %s, which AWS changes: it is not pinned", id, value)
	case !strings.HasPrefix(kind, "AWS::SSM::Parameter::Value<"):
		// The CDK's command line leaves a parameter as the stack has it, whatever default the template gives it now.
		p.no("parameter %s has the value that the stack has, not the assembly's: write the value into the template", id)
	}
}

var image = regexp.MustCompile(`^ami-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)

func (p *pins) resource(id string, n template.Node) {
	properties, _ := n.Get("Properties")
	p.images(id, properties)
	template.Strings(properties, func(s string) {
		if strings.Contains(s, "{{resolve:ssm:") || strings.Contains(s, "resolve:ssm:") {
			p.no("resource %s reads an SSM parameter by %q, of which CloudFormation does not notice changes", id, short(s))
		}
	})
	for _, at := range codes[n.GetString("Type")] {
		code, ok := properties.Get(at)
		if !ok {
			continue
		}
		key, named := code.Get("S3Key")
		if !named {
			continue
		}
		_, version := code.Get("S3ObjectVersion")
		if text, _ := key.Str(); !p.objects[stored{code.GetString("S3Bucket"), text}] && !version {
			p.no("resource %s takes its code from an object that is no asset of the assembly and has no version", id)
		}
	}
	if n.GetString("Type") == "AWS::CloudFormation::Stack" {
		p.no("resource %s is a nested stack, whose template is not part of what is compared and watched", id)
	}
}

// codes are the properties that name an object of S3 whose content becomes what runs.
var codes = map[string][]string{
	"AWS::Lambda::Function":     {"Code"},
	"AWS::Lambda::LayerVersion": {"Content"},
}

// images looks for ImageId at any depth.
func (p *pins) images(id string, n template.Node) {
	for i := range n.Len() {
		if n.Kind() == template.Map && n.Key(i) == "ImageId" {
			if text, ok := n.At(i).Str(); !ok || !image.MatchString(text) {
				p.no("resource %s has an ImageId that is no id of an image: pin it in the fleet (cellwall fleet pin-ami)", id)
			}
			continue
		}
		p.images(id, n.At(i))
	}
}

func short(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

func keys(set map[string]bool) []string {
	all := make([]string, 0, len(set))
	for k := range set {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
