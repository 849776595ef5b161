package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"cellwall.dev/cellwall/internal/fleet"
)

const fleetText = `
service: orders
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders, claim: tenant_id}
placement: {scheme: rendezvous/v1, perTenant: 2}
shard: {capacity: 1000, lambda: {asset: dist/worker, reservedConcurrency: 20}}
routes: [{path: /*, via: lambda}]
cells:
  - {name: canary, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 3, tenants: internal}
  - {name: eu-1, account: "222222222222", region: eu-west-1, zones: [a, b, c], shards: 5}
  - {name: us-1, account: "222222222222", region: us-east-1, zones: [b, a], shards: 2}
rollout:
  waves: [{cells: [canary], bake: 1h}, {percent: 100, bake: 2h}]
`

func testFleet(t testing.TB, text string) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Parse("fleet.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// files are those of an assembly, by path; those of an asset that are to be programs end in bootstrap.
type files map[string]string

// object is a JSON object that tests change.
type object = map[string]any

// made is an assembly as the CDK makes it of a fleet, by hand: a Stage for each cell beside the global stack, and one asset,
// which holds the code. change may spoil each template before it is written.
func made(f *fleet.Fleet, code string, change func(stack string, template object)) files {
	all := files{"cdk.out": `{"version":"55.0.0"}`, "tree.json": "{}", "validation-report.json": "{}"}
	sum := sha256.Sum256([]byte(code))
	hash := hex.EncodeToString(sum[:])
	all["asset."+hash+"/bootstrap"] = code
	stack := func(manifest object, dir, id, name, account, region string, tags object) {
		template := object{"Description": name, "Resources": object{
			"Code": object{"Type": "AWS::Lambda::Function", "Properties": object{"Code": object{"S3Bucket": "assets", "S3Key": hash + ".zip"}, "MemorySize": 512}},
		}}
		if tags["cellwall:cell"] != nil && tags["cellwall:shard"] == nil {
			cell, _ := f.Cell(tags["cellwall:cell"].(string))
			for _, z := range cell.Zones {
				template["Resources"].(object)["Subnet"+z] = object{"Type": "AWS::EC2::Subnet", "Properties": object{"AvailabilityZone": region + z}}
			}
		}
		if change != nil {
			change(name, template)
		}
		text := marshal(template)
		all[path.Join(dir, name+".template.json")] = text
		sum := sha256.Sum256([]byte(text))
		up := ""
		if dir != "." {
			up = "../"
		}
		all[path.Join(dir, name+".assets.json")] = marshal(object{"version": "55.0.0", "dockerImages": object{}, "files": object{
			hash: object{"source": object{"path": up + "asset." + hash, "packaging": "zip"},
				"destinations": object{"x": object{"bucketName": "assets", "objectKey": hash + ".zip"}}},
			hex.EncodeToString(sum[:]): object{"source": object{"path": name + ".template.json", "packaging": "file"},
				"destinations": object{"x": object{"bucketName": "assets", "objectKey": hex.EncodeToString(sum[:]) + ".json"}}},
		}})
		manifest[name+".assets"] = object{"type": "cdk:asset-manifest", "properties": object{"file": name + ".assets.json"}}
		manifest[name] = object{"type": "aws:cloudformation:stack", "environment": "aws://" + account + "/" + region, "displayName": id,
			"properties": object{"templateFile": name + ".template.json", "stackName": name, "tags": tags, "terminationProtection": false}}
	}
	top := object{"Tree": object{"type": "cdk:tree", "properties": object{"file": "tree.json"}}}
	stack(top, ".", "global", f.Names().Stack(), f.Directory.Account, f.Directory.Region, object{"cellwall:service": f.Service})
	for _, c := range f.Cells {
		dir, n, in := "assembly-"+c.Name, f.NamesOf(c), object{}
		tags := object{"cellwall:service": f.Service, "cellwall:cell": c.Name}
		stack(in, dir, c.Name+"/core", n.Stack(), c.Account, c.Region, tags)
		stack(in, dir, c.Name+"/watch", n.WatchStack(), c.Account, c.Region, tags)
		for _, s := range c.Shards {
			tags := maps.Clone(tags)
			tags["cellwall:shard"] = s.ID
			stack(in, dir, c.Name+"/shard-"+s.ID, n.Shard(s.ID).Stack(), c.Account, c.Region, tags)
		}
		all[dir+"/manifest.json"] = marshal(object{"version": "55.0.0", "artifacts": in})
		top[dir] = object{"type": "cdk:cloud-assembly", "properties": object{"directoryName": dir, "displayName": c.Name}}
	}
	all["manifest.json"] = marshal(object{"version": "55.0.0", "artifacts": top})
	return all
}

func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// write writes files below a folder of the test's own.
func (fs files) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range fs {
		put(t, filepath.Join(dir, name), text)
	}
	return dir
}

// mapped are the files in memory.
func (fs files) mapped() fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range fs {
		m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		if path.Base(name) == "bootstrap" {
			m[name].Mode = 0o755
		}
	}
	return m
}

func put(t testing.TB, name, text string) {
	t.Helper()
	mode := os.FileMode(0o644)
	if filepath.Base(name) == "bootstrap" {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// edit changes a file that is JSON.
func (fs files) edit(name string, change func(object)) {
	var v object
	if err := json.Unmarshal([]byte(fs[name]), &v); err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	change(v)
	fs[name] = marshal(v)
}

func opened(t testing.TB, dir string) *Assembly {
	t.Helper()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOpen(t *testing.T) {
	f := testFleet(t, fleetText)
	a := opened(t, made(f, "code", nil).write(t))
	if len(a.stacks) != 1+3*2+3+5+2 || !digestForm.MatchString(a.Digest) {
		t.Fatalf("%d stacks of %s", len(a.stacks), a.Digest)
	}
	i := slices.IndexFunc(a.Stacks(), func(s Stack) bool { return s.ID == "eu-1/shard-s02" })
	s := a.stacks[i]
	if s.Name != "orders-eu-1-shard-s02" || s.Place != (Place{"222222222222", "eu-west-1"}) || s.Cell != "eu-1" || s.Shard != "s02" || s.Service != "orders" {
		t.Errorf("%+v", s)
	}
	if err := Check(f, a); err != nil {
		t.Error(err)
	}
}

// TestOpenFaults: what is no assembly, or not a whole one, is no panic and no empty one.
func TestOpenFaults(t *testing.T) {
	f := testFleet(t, fleetText)
	deep := files{}
	dir := "."
	for range maxNested + 2 {
		deep[path.Join(dir, "manifest.json")] = `{"artifacts": {"a": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-d"}}}}`
		dir = path.Join(dir, "assembly-d")
	}
	one := func(properties string) files {
		return files{"t.json": `{"Resources": {"A": {"Type": "T"}}}`, "manifest.json": `{"artifacts": {"s": {"type": "aws:cloudformation:stack", "environment": "aws://1/r", "properties": ` + properties + `}}}`}
	}
	for want, fs := range map[string]files{
		"manifest.json: no such file":                     {"package.json": "{}"},
		"no artifacts":                                    {"manifest.json": `{"name": "an app of another kind"}`},
		"it has no stack":                                 {"manifest.json": `{"artifacts": {}}`},
		"the text ends in the middle":                     {"manifest.json": `{"artifacts": {`},
		"key stands twice":                                {"manifest.json": `{"artifacts": {"a": {}, "a": {}}}`},
		"not of the expected form":                        {"manifest.json": `{"artifacts": []}`},
		"nested deeper than 16":                           deep,
		"or one holds itself":                             {"manifest.json": `{"artifacts": {"a": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "."}}}}`},
		"the path leaves the assembly":                    one(`{"templateFile": "../t.json"}`),
		"x.json: no such file":                            one(`{"templateFile": "x.json"}`),
		"manifest.json: not a template":                   one(`{"templateFile": "manifest.json"}`),
		"not a regular file":                              one(`{"templateFile": ""}`),
		`environment "here" is not aws://`:                {"manifest.json": `{"artifacts": {"s": {"type": "aws:cloudformation:stack", "environment": "here"}}}`},
		"larger than 4 MiB":                               {"manifest.json": one(`{"templateFile": "t.json"}`)["manifest.json"], "t.json": `{"Resources": {"A": "` + string(make([]byte, maxTemplate)) + `"}}`},
		`artifact "a": a.assets.json: 1:1: the text ends`: {"manifest.json": `{"artifacts": {"a": {"type": "cdk:asset-manifest", "properties": {"file": "a.assets.json"}}}}`, "a.assets.json": ""},
	} {
		_, err := Open(fs.write(t))
		wants(t, err, ErrNotAssembly, want)
	}
	_, err := Open(filepath.Join(t.TempDir(), "none"))
	wants(t, err, ErrNotAssembly, "none")
	_, err = Open(filepath.Join(made(f, "code", nil).write(t), "manifest.json"))
	wants(t, err, ErrNotAssembly, "manifest.json")
}
