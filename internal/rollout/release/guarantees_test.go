package release

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// wants sees that an error is of a kind and has a text.
func wants(t testing.TB, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v\nwant %v with %q", err, kind, text)
	}
}

func digestOf(t testing.TB, dir string) string {
	t.Helper()
	d, err := Digest(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestOneDigest is guarantee 1.
func TestOneDigest(t *testing.T) {
	f := testFleet(t, fleetText)
	all := made(f, "code", nil)
	dir := all.write(t)
	want := digestOf(t, dir)
	if again := digestOf(t, made(f, "code", nil).write(t)); again != want {
		t.Errorf("the same assembly has the digests %s and %s", want, again)
	}
	for _, name := range []string{"tree.json", "validation-report.json", "read.123.1.lock", "synth.lock", ".cache/a.zip", ".hotswap-cache/a.json",
		"assembly-eu-1/.cache/deep/er/a.zip", "assembly-eu-1/read.9.2.lock", "assembly-eu-1/.hotswap-cache/a.json"} {
		put(t, filepath.Join(dir, name), "anything")
	}
	if err := os.Chtimes(filepath.Join(dir, "manifest.json"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "manifest.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "an-empty-folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := digestOf(t, dir); got != want {
		t.Errorf("what is no part of it changes the digest to %s", got)
	}

	asset := ""
	for name := range all {
		if strings.HasSuffix(name, "/bootstrap") {
			asset = filepath.Dir(name)
		}
	}
	seen := map[string]string{want: "nothing"}
	changed := func(what string, change func(m fstest.MapFS)) {
		t.Helper()
		m := all.mapped()
		change(m)
		got, err := Digest(m)
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := seen[got]; ok {
			t.Errorf("%s and %s have one digest", what, before)
		}
		seen[got] = what
	}
	if got, err := Digest(all.mapped()); got != want {
		t.Errorf("in memory it is %s, %v", got, err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != "tree.json" && name != "validation-report.json" {
			changed("a byte more in "+name, func(m fstest.MapFS) { m[name].Data = append(m[name].Data, ' ') })
			changed("no "+name, func(m fstest.MapFS) { delete(m, name) })
		}
	}
	for _, name := range []string{"a", "assembly-eu-1/tree.json", "assembly-eu-1/a", asset + "/tree.json", asset + "/.cache/a.zip", asset + "/read.1.1.lock",
		asset + "/assembly-x/.cache/a", "lib/.cache/a", "x.lock", ".cached"} {
		changed("more: "+name, func(m fstest.MapFS) { m[name] = &fstest.MapFile{} })
	}
	changed("no program", func(m fstest.MapFS) { m[asset+"/bootstrap"].Mode = 0o644 })
	changed("a program", func(m fstest.MapFS) { m["manifest.json"].Mode = 0o744 })
	changed("a name that holds a line", func(m fstest.MapFS) { m["a\" 00\nfile \"b"] = &fstest.MapFile{} })
	changed("two such files", func(m fstest.MapFS) { m["a"], m["b"] = &fstest.MapFile{}, &fstest.MapFile{} })
}

// TestNothingOutside is guarantee 2.
func TestNothingOutside(t *testing.T) {
	f := testFleet(t, fleetText)
	all := made(f, "code", nil)
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, secret, "hunter2")
	for what, spoil := range map[string]func(dir string) error{
		"a link outside":            func(dir string) error { return os.Symlink(secret, filepath.Join(dir, "link")) },
		"a link inside":             func(dir string) error { return os.Symlink("manifest.json", filepath.Join(dir, "link")) },
		"a link in an asset":        func(dir string) error { return os.Symlink("/etc", filepath.Join(dir, "assembly-eu-1", "etc")) },
		"a link for the manifest":   func(dir string) error { return swap(filepath.Join(dir, "manifest.json"), secret) },
		"a link for a folder":       func(dir string) error { return swap(filepath.Join(dir, "assembly-eu-1"), filepath.Dir(secret)) },
		"a link for a template":     func(dir string) error { return swap(filepath.Join(dir, "orders-global.template.json"), secret) },
		"a link that leads nowhere": func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, "link")) },
	} {
		dir := all.write(t)
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir)
		if !errors.Is(err, ErrNotAssembly) || !strings.Contains(err.Error(), "an assembly has no links") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := index(dir, true); err == nil && strings.Contains(what, " for a folder") {
			t.Errorf("%s: it was read", what)
		}
		folder, _ := NewFolder(filepath.Join(t.TempDir(), "kept"))
		if _, err := folder.Keep(t.Context(), &Assembly{Dir: dir, Digest: "sha256:" + strings.Repeat("0", 64)}); err == nil {
			t.Errorf("%s: it was kept", what)
		}
	}
}

func swap(name, target string) error {
	if err := os.RemoveAll(name); err != nil {
		return err
	}
	return os.Symlink(target, name)
}

// TestRefused is guarantee 3: each fault alone is a reason, and all of them together are told at once.
func TestRefused(t *testing.T) {
	f := testFleet(t, fleetText)
	one := func(of string, change func(resources object)) func() files {
		return func() files {
			return made(f, "code", func(stack string, template object) {
				if stack == of {
					change(template["Resources"].(object))
				}
			})
		}
	}
	manifest := func(name string, change func(object)) func() files {
		return func() files {
			all := made(f, "code", nil)
			all.edit(name, change)
			return all
		}
	}
	artifact := func(id string, change func(a, properties object)) func() files {
		return manifest("assembly-eu-1/manifest.json", func(m object) {
			a := m["artifacts"].(object)[id].(object)
			change(a, a["properties"].(object))
		})
	}
	asset := func(change func(files object, hash string)) func() files {
		return manifest("assembly-eu-1/orders-eu-1-core.assets.json", func(m object) {
			for hash := range m["files"].(object) {
				if strings.HasPrefix(m["files"].(object)[hash].(object)["source"].(object)["path"].(string), "../") {
					change(m["files"].(object), hash)
					return
				}
			}
		})
	}
	other := func(from, to string) func() files {
		return func() files { return made(testFleet(t, strings.Replace(fleetText, from, to, 1)), "code", nil) }
	}
	shard := "orders-eu-1-shard-s02"
	function := func(r object) object { return r["Code"].(object)["Properties"].(object) }
	for want, spoil := range map[string]func() files{
		"it is not of service orders: bills-canary-core (of bills)": other("service: orders", "service: bills"),
		"orders-eu-1-core (of no service of cellwall)":              artifact("orders-eu-1-core", func(_, p object) { delete(p, "tags") }),
		"the context vpc-provider:x, zones:y was missing":           manifest("manifest.json", func(m object) { m["missing"] = []object{{"key": "zones:y"}, {"key": "vpc-provider:x"}} }),
		"cell eu-1 is not whole: " + shard + " missing":             manifest("assembly-eu-1/manifest.json", func(m object) { delete(m["artifacts"].(object), shard) }),
		"cell us-1 is not whole: orders-us-1-core, orders-us-1-shard-s01, orders-us-1-shard-s02, orders-us-1-watch missing; synthesise all": manifest("manifest.json", func(m object) {
			delete(m["artifacts"].(object), "assembly-us-1")
		}),
		"cell eu-1 has orders-eu-1-shard-s06, which the fleet does not":                                                other("shards: 5", "shards: 6"),
		"stack orders-eu-2-core is of cell eu-2, which the fleet does not have":                                        other("name: eu-1", "name: eu-2"),
		"stack orders-us-1-core lies in 333333333333/us-east-1, and the fleet has cell us-1 in 222222222222/us-east-1": other(`"222222222222", region: us-east-1`, `"333333333333", region: us-east-1`),
		"stack orders-us-1-shard-s02 lies in 222222222222/us-west-2":                                                   other("us-east-1", "us-west-2"),
		"the network of cell eu-1 is in eu-west-1a, eu-west-1b, and the fleet has eu-west-1a, eu-west-1b, eu-west-1c":  other("zones: [a, b, c]", "zones: [a, b]"),
		"stack " + shard + " has no account and region":                                                                artifact(shard, func(a, _ object) { a["environment"] = "aws://unknown-account/unknown-region" }),
		`stack ` + shard + ` has the id "eu-1/*", which`:                                                               artifact(shard, func(a, _ object) { a["displayName"] = "eu-1/*" }),
		"stack a?[31mb?c is of cell eu-9": artifact(shard, func(_, p object) {
			p["stackName"] = "a\x1b[31mb\nc"
			p["tags"] = object{"cellwall:service": "orders", "cellwall:cell": "eu-9"}
		}),
		"two stacks have the id eu-1/core":                                             artifact(shard, func(a, _ object) { a["displayName"] = "eu-1/core" }),
		"two stacks have the name orders-eu-1-shard-s01 222222222222/eu-west-1":        artifact(shard, func(_, p object) { p["stackName"] = "orders-eu-1-shard-s01" }),
		"stack " + shard + " has no resources: the CDK's command line would delete it": one(shard, func(r object) { clear(r) }),
		"the file of asset":        asset(func(files object, hash string) { files[hash].(object)["source"].(object)["path"] = "../asset.none" }),
		"../../secret, is missing": asset(func(files object, hash string) { files[hash].(object)["source"].(object)["path"] = "../../../secret" }),
		"is made by a command when it is deployed": asset(func(files object, hash string) {
			files[hash].(object)["source"] = object{"executable": []string{"sh", "-c", "make"}}
		}),
		"is not named by its hash": asset(func(files object, hash string) { files["latest"] = files[hash]; delete(files, hash) }),
		" is not named by its": asset(func(files object, hash string) {
			files[hash].(object)["destinations"].(object)["x"].(object)["objectKey"] = "latest.zip"
		}),
		"the image abc would be built when it is deployed":                                  manifest("orders-global.assets.json", func(m object) { m["dockerImages"] = object{"abc": object{}} }),
		"stack " + shard + ": resource Code takes its code from an object that is no asset": one(shard, func(r object) { function(r)["Code"].(object)["S3Key"] = "latest.zip" }),
		"stack " + shard + ": resource Code takes its code from":                            one(shard, func(r object) { function(r)["Code"].(object)["S3Bucket"] = "another" }),
		"resource N is a nested stack": one(shard, func(r object) {
			r["N"] = object{"Type": "AWS::CloudFormation::Stack", "Properties": object{"TemplateURL": "https://s3.amazonaws.com/x/y.json"}}
		}),
		"resource T has an ImageId that is no id of an image": one(shard, func(r object) {
			r["T"] = object{"Type": "AWS::EC2::LaunchTemplate", "Properties": object{"LaunchTemplateData": object{"ImageId": object{"Ref": "Image"}}}}
		}),
		"resource T has an ImageId that is": one(shard, func(r object) {
			r["T"] = object{"Type": "AWS::EC2::LaunchTemplate", "Properties": object{"List": []any{object{"ImageId": "resolve:ssm:/ami"}}}}
		}),
		`resource Code reads an SSM parameter by "{{resolve:ssm:/x}}"`: one(shard, func(r object) { function(r)["Description"] = object{"Fn::Sub": "{{resolve:ssm:/x}}"} }),
		"parameter P is an image that SSM names": func() files {
			return made(f, "code", func(stack string, template object) {
				template["Parameters"] = object{"P": object{"Type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>", "Default": "/own/image"}}
			})
		},
		"parameter P has the value that the stack has, not the assembly's": func() files {
			return made(f, "code", func(stack string, template object) {
				template["Parameters"] = object{"P": object{"Type": "Number", "Default": 20}}
			})
		},
		"parameter P is /aws/service/x, which AWS changes": func() files {
			return made(f, "code", func(stack string, template object) {
				template["Parameters"] = object{"P": object{"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/aws/service/x"}}
			})
		},
	} {
		a := opened(t, spoil().write(t))
		err := Check(f, a)
		wants(t, err, ErrRefused, want)
		if r := (*Refusal)(nil); errors.As(err, &r) && len(r.Reasons) > 51 {
			t.Errorf("%d reasons", len(r.Reasons))
		}
	}
	// A version pins an object, and an SSM parameter of the service's own is a value of its core.
	fine := made(f, "code", func(stack string, template object) {
		template["Parameters"] = object{"P": object{"Type": "AWS::SSM::Parameter::Value<AWS::EC2::VPC::Id>", "Default": "/cellwall/orders/eu-1/core/vpc"}}
		r := template["Resources"].(object)
		r["T"] = object{"Type": "AWS::EC2::LaunchTemplate", "Properties": object{"LaunchTemplateData": object{"ImageId": "ami-0123456789abcdef0"}}}
		r["L"] = object{"Type": "AWS::Lambda::LayerVersion", "Properties": object{"Content": object{"S3Bucket": "b", "S3Key": "l", "S3ObjectVersion": "1"}}}
	})
	if err := Check(f, opened(t, fine.write(t))); err != nil {
		t.Error(err)
	}
	both := made(testFleet(t, strings.Replace(fleetText, "shards: 5", "shards: 6", 1)), "code", nil)
	both.edit("manifest.json", func(m object) { m["missing"] = []object{{"key": "x"}} })
	var r *Refusal
	if err := Check(f, opened(t, both.write(t))); !errors.As(err, &r) || len(r.Reasons) != 2 {
		t.Errorf("two faults: %v", err)
	}
}

// TestKeptWhole is guarantee 4. A process that ends while it copies is one that leaves what it has written: any part of
// the files, under the name of what is not whole.
func TestKeptWhole(t *testing.T) {
	f := testFleet(t, fleetText)
	all := made(f, "code", nil)
	a := opened(t, all.write(t))
	dir := filepath.Join(t.TempDir(), "a", "b")
	folder, err := NewFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := folder.List(); err != nil || len(kept) > 0 {
		t.Fatalf("%v, %v", kept, err)
	}
	_, err = folder.Get(a.Digest)
	wants(t, err, ErrNoDigest, a.Digest)
	for _, no := range []string{"", "sha256:", "sha256:../../etc", "latest", "sha256-" + strings.Repeat("0", 64)} {
		_, err := folder.Get(no)
		wants(t, err, ErrNoDigest, "is no digest")
	}
	// Half of it, as a process leaves it that was killed, is nothing, and goes when it is old.
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	half := filepath.Join(dir, unfinished+"123")
	for name, text := range all {
		if rng.IntN(2) == 0 {
			put(t, filepath.Join(half, name), text[:rng.IntN(len(text)+1)])
		}
	}
	os.MkdirAll(half, 0o755)
	if _, err := folder.Get(a.Digest); !errors.Is(err, ErrNoDigest) {
		t.Errorf("half an assembly: %v", err)
	}
	old := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(half, old, old); err != nil {
		t.Fatal(err)
	}

	kept, err := folder.Keep(t.Context(), a)
	if err != nil || kept.Digest != a.Digest || kept.Dir == a.Dir {
		t.Fatalf("%+v, %v", kept, err)
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was left half done long ago is there: %v", err)
	}
	asset := slices.IndexFunc(a.assets, func(x asset) bool { return strings.HasPrefix(x.path, "asset.") })
	if info, err := os.Stat(filepath.Join(kept.Dir, a.assets[asset].path, "bootstrap")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("a program is one no more: %v, %v", info, err)
	}
	for _, name := range []string{"tree.json", "validation-report.json"} {
		if _, err := os.Stat(filepath.Join(kept.Dir, name)); err == nil {
			t.Errorf("%s was kept, which is no part of it", name)
		}
	}
	// Again, and another, which is the newest until the first is kept once more.
	second := opened(t, made(f, "other code", nil).write(t))
	if err := os.Chtimes(kept.Dir, old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Keep(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	newest := func() (digests []string) {
		list, err := folder.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range list {
			digests = append(digests, k.Digest)
		}
		return digests
	}
	if got := newest(); !slices.Equal(got, []string{second.Digest, a.Digest}) {
		t.Errorf("kept: %v", got)
	}
	if _, err := folder.Keep(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := newest(); len(got) != 2 || got[0] != a.Digest && got[1] != second.Digest {
		t.Errorf("kept: %v", got)
	}
	// What changes on the way is not kept, and what changes afterwards is not handed out.
	third := opened(t, made(f, "third", nil).write(t))
	put(t, filepath.Join(third.Dir, "manifest.json"), "{}")
	_, err = folder.Keep(t.Context(), third)
	wants(t, err, ErrDamaged, third.Digest)
	put(t, filepath.Join(kept.Dir, "cdk.out"), "{}")
	_, err = folder.Get(a.Digest)
	wants(t, err, ErrDamaged, "delete that folder")
	_, err = folder.Keep(t.Context(), a)
	wants(t, err, ErrDamaged, kept.Dir)
	if err := os.Remove(filepath.Join(kept.Dir, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	_, err = folder.Get(a.Digest)
	wants(t, err, ErrDamaged, "manifest.json")
	u := newUse(folder)
	_, err = u.dir(t.Context(), a.Digest)
	wants(t, err, ErrDamaged, a.Digest)
	if err := os.RemoveAll(kept.Dir); err != nil {
		t.Fatal(err)
	}
	put(t, kept.Dir, "a file")
	_, err = folder.Get(a.Digest)
	wants(t, err, ErrDamaged, "is no folder")
	if names, _ := filepath.Glob(filepath.Join(dir, unfinished+"*")); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := folder.Keep(ctx, opened(t, made(f, "fourth", nil).write(t))); err == nil {
		t.Error("kept although nobody waits for it")
	}
}

// TestKeptAtOnce: several processes may keep one assembly at a time.
func TestKeptAtOnce(t *testing.T) {
	f := testFleet(t, fleetText)
	a := opened(t, made(f, "code", nil).write(t))
	dir := t.TempDir()
	errs := make(chan error)
	const n = 8
	for range n {
		go func() {
			folder, err := NewFolder(dir)
			if err == nil {
				_, err = folder.Keep(t.Context(), a)
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d entries", len(entries))
	}
}

// TestCanonical: what means the same has one hash, and what does not has another.
func TestCanonical(t *testing.T) {
	groups := [][]string{
		{`{"Resources": {"A": {"Type": "T", "Properties": {"N": 1, "L": [1, "2"]}}}}`,
			`{"Resources":{"A":{"Properties":{"L":[1.0,"2"],"N":1e0},"Type":"T"}},"Description":"d","Metadata":{"x":1}}`,
			"\xef\xbb\xbf {\"Resources\": {\"A\": {\"Type\": \"T\", \"Properties\": {\"N\": 1, \"L\": [1, \"\\u0032\"]}}}, \"Outputs\": {}, \"Conditions\": null}",
			"Resources:\n  A:\n    Type: T\n    Properties: {N: 1, L: [1, '2']}\n"},
		{`{"Resources": {"A": {"Type": "T", "Properties": {"N": 1, "L": ["2", 1]}}}}`},
		{`{"Resources": {"A": {"Type": "T", "Properties": {"N": "1", "L": [1, "2"]}}}}`},
		{`{"Resources": {"A": {"Type": "T", "Properties": {"N": true, "L": [1, "2"]}}}}`},
		{`{"Resources": {"A": {"Type": "T", "Properties": {"N": null, "L": [1, "2"]}}}}`},
		{`{"Resources": {"A": {"Type": "T", "Metadata": {"x": 1}, "Properties": {"N": 1, "L": [1, "2"]}}}}`},
		{`{"Resources": {"A": {"Type": "T"}}}`, "Resources: {A: {Type: T}}\nDescription: d"},
		{`{"Resources": {"A": {"Type": "T"}}, "Outputs": {"O": {"Value": {"Ref": "A"}}}}`, "Resources: {A: {Type: T}}\nOutputs: {O: {Value: !Ref A}}"},
		{`{"Resources": {"A": {"Type": "T"}}, "Parameters": {"O": {"Value": {"Ref": "A"}}}}`},
		{`{"Resources": {"A": {"Type": "T"}}, "Transform": "AWS::Serverless-2016-10-31"}`},
		{`{"Resources": {"A": {"Type": "T", "X": 123456789012345678901}}}`, `{"Resources": {"A": {"Type": "T", "X": 123456789012345678901.0}}}`},
		{`{"Resources": {"A": {"Type": "T", "X": 123456789012345678902}}}`},
		{`{"Resources": {"A": {"Type": "T", "X": 1e99999}}}`},
		{`{"Resources": {"A": {"Type": "T", "X": "Größe 🦀"}}}`, `{"Resources": {"A": {"Type": "T", "X": "Gr\u00f6\u00dfe \ud83e\udd80"}}}`, "Resources: {A: {Type: T, X: 'Gr??e ?'}}"}, // as GetTemplate has it
	}
	seen := map[string]int{}
	for i, group := range groups {
		first := ""
		for _, text := range group {
			hash, err := Canonical([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if first == "" {
				first = hash
			}
			if hash != first {
				t.Errorf("not the same as %s: %s", group[0], text)
			}
			if j, ok := seen[hash]; ok && j != i {
				t.Errorf("the same as %s: %s", groups[j][0], text)
			}
			seen[hash] = i
		}
	}
	for _, no := range []string{"", "[]", "- 1", "{", "x"} {
		if _, err := Canonical([]byte(no)); err == nil {
			t.Errorf("%q has a hash", no)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"Resources": {"A": {"Type": "T", "X": 1.50}}}`))
	f.Add([]byte("Resources: {A: &a {Type: T, X: 0x1F}, B: *a}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if a, err := Canonical(text); err == nil {
			if b, err := Canonical(append([]byte(" "), text...)); err == nil && a != b && text[0] == '{' {
				t.Errorf("a blank changes %q", text)
			}
		}
	})
}
