package audit

import (
	"regexp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// referStack makes the edges of everything in one stack.
func (b *builder) referStack(i int) {
	s := &b.stacks[i]
	t := &s.Template
	v := referrer{builder: b, stack: i}
	properties, metadata := v.property, v.metadata // made once for all resources
	for j := range t.Resources {
		v.resource = &t.Resources[j]
		b.referResource(&v, properties, metadata)
	}
	for j := range t.Parameters {
		b.referParameter(i, &t.Parameters[j])
	}
	for _, o := range t.Outputs {
		b.referValue(i, b.outputs[i][o.ID], o.Value, []string{"Value"})
	}
	for _, c := range t.Conditions {
		b.referValue(i, b.conds[i][c.ID], c.Expr, nil)
	}
	for _, m := range t.Transforms {
		b.review(reviewKey{&ruleUnread, s.File, "", "the macro " + m + " changes the template before it is deployed; what it adds was not seen"})
	}
	for _, l := range t.Loops {
		b.review(reviewKey{&ruleUnread, s.File, l, "the loop stands for resources that were not seen"})
	}
}

// referrer makes the edges of one resource after another of a stack.
type referrer struct {
	*builder
	stack    int
	resource *template.Resource
	from     int32
	child    int // the stack nested there
	nests    bool
}

// property makes the edges of one reference in Properties.
func (v *referrer) property(u template.Use) {
	switch {
	case len(u.Path) == 0 || u.Path[0] == "Tags":
		return // a tag makes nothing depend on anything
	case v.resource.Type == typeNested && u.Path[0] == "TemplateURL" && u.Kind == template.UseText:
		return // where CloudFormation reads the template from, once
	case v.nests && u.Path[0] == "Parameters":
		if len(u.Path) > 1 {
			if p, ok := v.params[v.child][u.Path[1]]; ok {
				v.use(v.stack, p, u, nil)
			}
		}
		return
	}
	v.use(v.stack, v.from, u, nil)
}

// metadata makes the edges of one reference in Metadata.
func (v *referrer) metadata(u template.Use) {
	if len(u.Path) > 0 && !toolsOwn(u.Path[0]) {
		v.use(v.stack, v.from, u, []string{"Metadata"})
	}
}

func (b *builder) referResource(v *referrer, properties, metadata func(template.Use)) {
	i, r := v.stack, v.resource
	s := &b.stacks[i]
	v.from = b.resources[i][r.ID]
	v.child, v.nests = b.nested[i][r.ID]
	from, nests := v.from, v.nests
	b.walker.Uses(r.Properties, properties)
	b.referValue(i, from, r.CreationPolicy, []string{"CreationPolicy"})
	b.referValue(i, from, r.UpdatePolicy, []string{"UpdatePolicy"})
	b.walker.Uses(r.Metadata, metadata)
	if (r.Type == typeNested || r.Type == "AWS::Serverless::Application") && !nests {
		b.review(reviewKey{&ruleUnread, s.File, r.ID, "the template of this nested stack was not found"})
	}
	for _, id := range r.DependsOn {
		if to, ok := b.resources[i][id]; ok {
			if !b.ordered[i] {
				continue
			}
			b.out[from] = append(b.out[from], edge{to: to, how: byOrder, bond: order, at: "DependsOn"})
		} else {
			b.review(reviewKey{&ruleUnresolved, s.File, r.ID, "DependsOn names " + quote(id) + ", which the template does not have"})
		}
	}
	if r.Condition != "" {
		b.condition(i, from, r.Condition)
	}
}

// toolsOwn says whether a key of Metadata is a tool's note to itself and no configuration of what runs.
// cfn-init and whoever else reads a resource's metadata on an instance see all other keys.
func toolsOwn(key string) bool {
	switch key {
	case "AWS::CloudFormation::Designer", "AWS::CloudFormation::Interface", "cdk_nag", "cfn_nag", "cfn-lint", "guard", "checkov":
		return true
	}
	return strings.HasPrefix(key, "aws:cdk:") || strings.HasPrefix(key, "aws:asset:") || strings.HasPrefix(key, "Sam")
}

func (b *builder) referParameter(i int, p *template.Parameter) {
	from := b.params[i][p.ID]
	v, ok := b.scopes[i].Value(*p)
	if !ok {
		return // reported where it is used
	}
	if p.IsSSM() {
		b.refer(from, b.parameterStore(b.stacks[i].env(), v), byParameter, []string{"Default"})
		return
	}
	b.texts(i, from, []string{"Default"}, template.NewString(v))
}

func (b *builder) referValue(i int, from int32, n template.Node, base []string) {
	if n.Kind() != template.Null { // most of what a resource may have it has not
		b.walker.Uses(n, func(u template.Use) { b.use(i, from, u, base) })
	}
}

// use makes the edges of one reference in stack i.
func (b *builder) use(i int, from int32, u template.Use, base []string) {
	path := u.Path
	if base != nil {
		path = slices.Concat(base, u.Path)
	}
	switch u.Kind {
	case template.UseRef:
		b.ref(i, from, path, u.Name)
	case template.UseGetAtt:
		b.getAtt(i, from, path, u.Name, u.Attr)
	case template.UseCondition:
		b.condition(i, from, u.Name)
	case template.UseImport:
		b.importValue(i, from, path, u.Node)
	case template.UseStackOutput:
		b.stackOutput(i, from, path, u.Node)
	case template.UseMacro:
		b.review(reviewKey{&ruleUnread, b.stacks[i].File, b.nodes[from].id, u.Name + " at " + strings.Join(path, ".") + " is not understood"})
	case template.UseText:
		b.texts(i, from, path, u.Node)
	}
}

func (b *builder) ref(i int, from int32, path []string, name string) {
	if to, ok := b.resources[i][name]; ok {
		b.refer(from, to, byRef, path)
		return
	}
	if to, ok := b.params[i][name]; ok {
		b.refer(from, to, byRef, path)
		p, _ := b.stacks[i].Template.Parameter(name)
		_, passed := b.passed(i, name)
		if _, known := b.scopes[i].Value(p); !known && !passed {
			b.unknownParameter(i, &p, path)
		}
		return
	}
	if !strings.HasPrefix(name, "AWS::") {
		b.unresolved(i, from, path, "Ref", name)
	}
}

// networkKeys are properties that name nothing but a part of a network.
var networkKeys = map[string]bool{"VpcId": true, "VPCId": true, "SubnetId": true, "SubnetIds": true, "Subnets": true, "VPCZoneIdentifier": true,
	"RouteTableId": true, "RouteTableIds": true}

// unknownParameter says that nobody knows what a parameter names which is used at path. That it is a network its type
// says, or the property: the shards of a cell share theirs, so that it matters only where there are several cells.
func (b *builder) unknownParameter(i int, p *template.Parameter, path []string) {
	k := reviewKey{&ruleUnresolved, b.stacks[i].File, p.ID, "the parameter has no default: what it names is known at deployment only"}
	last := ""
	for _, key := range path {
		if strings.Trim(key, "0123456789") != "" { // no index into a list
			last = key
		}
	}
	switch typ := strings.TrimSuffix(strings.TrimPrefix(p.Type, "List<"), ">"); {
	case typ == "AWS::EC2::AvailabilityZone::Name":
		return // a zone is nobody's resource
	case typ != "AWS::EC2::VPC::Id" && typ != "AWS::EC2::Subnet::Id" && !networkKeys[last]:
	case b.cellCount() < 2:
		k.rule, k.what = &ruleNetwork, "parameter "+quote(p.ID)+" names a network that only a deployment knows"
	default:
		k.what = "the parameter has no default: which network it names is known at deployment only; the shards of one cell may share it, several cells had better not"
	}
	b.review(k)
}

// cellCount is how many cells have shards.
func (b *builder) cellCount() int {
	n := 0
	for i, s := range b.shards { // sorted by service and cell
		if i == 0 || s.cell() != b.shards[i-1].cell() {
			n++
		}
	}
	return n
}

// passed says whether a parent stack gives the parameter its value.
func (b *builder) passed(i int, name string) (template.Node, bool) {
	p := b.parent[i]
	if p < 0 {
		return template.Node{}, false
	}
	at, ok := b.resources[p][b.stacks[i].Nested.Resource]
	if !ok {
		return template.Node{}, false
	}
	values, _ := b.nodes[at].res.Properties.Get("Parameters")
	return values.Get(name)
}

func (b *builder) getAtt(i int, from int32, path []string, name, attr string) {
	to, ok := b.resources[i][name]
	if !ok {
		b.unresolved(i, from, path, "Fn::GetAtt", name)
		return
	}
	if output, isOutput := strings.CutPrefix(attr, "Outputs."); isOutput {
		if child, ok := b.nested[i][name]; ok {
			if o, ok := b.outputs[child][output]; ok {
				b.refer(from, o, byNesting, path)
				return
			}
		}
	}
	if b.regionRead(i, from, to, path, attr) {
		return
	}
	b.refer(from, to, byGetAtt, path)
}

func (b *builder) condition(i int, from int32, name string) {
	if to, ok := b.conds[i][name]; ok {
		b.out[from] = append(b.out[from], edge{to: to, how: byCondition, at: "Condition"})
		return
	}
	b.unresolved(i, from, []string{"Condition"}, "Condition", name)
}

func (b *builder) importValue(i int, from int32, path []string, n template.Node) {
	for _, t := range b.scopes[i].Eval(n) {
		name, ok := t.Literal()
		if !ok {
			b.unresolved(i, from, path, "Fn::ImportValue", "a name that only a deployment knows")
			continue
		}
		e := b.stacks[i].env()
		if to, ok := b.exports[nameKey{env: e, name: name}]; ok {
			b.refer(from, to, byImport, path)
			continue
		}
		b.refer(from, b.outside(typeExport, name, name), byImport, path)
	}
}

// stackOutput resolves Fn::GetStackOutput, which reads an output of another stack, exported or not, in
// another region or account too.
func (b *builder) stackOutput(i int, from int32, path []string, n template.Node) {
	e := b.stacks[i].env()
	arg := func(key string) (string, bool) {
		v, ok := n.Get(key)
		if !ok || v.Kind() == template.Null {
			return "", false
		}
		return single(b.scopes[i].Eval(v))
	}
	if r, ok := arg("Region"); ok {
		e.region = r
	}
	if role, ok := arg("RoleArn"); ok {
		if a, ok := parseARN(role); ok && a.account != "" {
			e.account = a.account
		}
	}
	stack, ok1 := arg("StackName")
	output, ok2 := arg("OutputName")
	if a, ok := parseARN(stack); ok { // stack names may be given as ARNs: …:stack/NAME/ID
		if parts := strings.Split(a.resource, "/"); len(parts) > 1 {
			stack, e = parts[1], env{a.account, a.region}
		}
	}
	if !ok1 || !ok2 {
		b.unresolved(i, from, path, "Fn::GetStackOutput", "names that only a deployment knows")
		return
	}
	if j, ok := b.stackName[nameKey{env: e, name: stack}]; ok {
		if to, ok := b.outputs[j][output]; ok {
			b.refer(from, to, byStackOutput, path)
			return
		}
	}
	b.refer(from, b.outside(typeExport, stack+"."+output, output), byStackOutput, path)
}

func (b *builder) parameterStore(e env, name string) int32 {
	name = parameterVersion.ReplaceAllString(name, "")
	for _, try := range []string{name, "/" + name} {
		if to, ok := b.find(e, typeParameter, try); ok {
			return to
		}
	}
	return b.outside(typeParameter, name, name)
}

// parameterVersion is the version or label that may follow a parameter's name.
var parameterVersion = regexp.MustCompile(`:[A-Za-z0-9_.-]+$`)

func (b *builder) unresolved(i int, from int32, path []string, what, name string) {
	b.review(reviewKey{&ruleUnresolved, b.stacks[i].File, b.nodes[from].id,
		what + " at " + strings.Join(path, ".") + " names " + quote(name) + ", which the template does not have"})
}
