package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	one = "ami-0aaaaaaaaaaaaaaaa"
	two = "ami-0bbbbbbbbbbbbbbbb"
)

// pinnable is a fleet whose images are written as %s says, two cells of one region and one of another.
const pinnable = `service: orders # ami-0123456789abcdef0
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders}
shard:
  # éß ami-0123456789abcdef0
  http:
    asset: dist/worker-http
    %s
    min: 1
cells:
  - {name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4}
  - {name: eu-2, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4}
  - {name: us-1, account: "111111111111", region: us-east-1, zones: [a, b], shards: 4}
`

func TestPin(t *testing.T) {
	images := map[string]string{"eu-west-1/arm64": one, "us-east-1/arm64": two}
	for name, c := range map[string]struct{ was, want string }{
		"lines": {"amis:\n      eu-west-1/arm64: ami-0123456789abcdef0 # é\n\n      # far\n      us-east-1/arm64: ami-0123456789abcdef0",
			"amis:\n      eu-west-1/arm64: " + one + " # é\n\n      # far\n      us-east-1/arm64: " + two},
		"braces":        {"amis: {us-east-1/arm64: ami-01234567 , eu-west-1/arm64: ami-0123456789abcdef0}", "amis: {us-east-1/arm64: " + two + " , eu-west-1/arm64: " + one + "}"},
		"quotes":        {`amis: {"us-east-1/arm64": "ami-01234567", 'eu-west-1/arm64': 'ami-0123456789abcdef0'}`, `amis: {"us-east-1/arm64": "` + two + `", 'eu-west-1/arm64': '` + one + `'}`},
		"none":          {"amis: {}", "amis: {eu-west-1/arm64: " + one + ", us-east-1/arm64: " + two + "}"},
		"none, spaced":  {"amis: {  } # none", "amis: {eu-west-1/arm64: " + one + ", us-east-1/arm64: " + two + "  } # none"},
		"one in lines":  {"amis:\n        eu-west-1/arm64: \"" + one + "\" # stays", "amis:\n        eu-west-1/arm64: \"" + one + "\" # stays\n        us-east-1/arm64: " + two},
		"one in braces": {"amis: {eu-west-1/arm64: '" + one + "',}", "amis: {eu-west-1/arm64: '" + one + "', us-east-1/arm64: " + two + ",}"},
		"another's":     {"amis: {ap-south-1/x86_64: ami-01234567}", "amis: {ap-south-1/x86_64: ami-01234567, eu-west-1/arm64: " + one + ", us-east-1/arm64: " + two + "}"},
		"broken braces": {"amis: {\n      eu-west-1/arm64: ami-01234567,\n      us-east-1/arm64: ami-01234567\n    }", "amis: {\n      eu-west-1/arm64: " + one + ",\n      us-east-1/arm64: " + two + "\n    }"},
	} {
		for _, ending := range []string{"\n", "\r\n"} {
			for _, mark := range []string{"", string(byteOrderMark)} {
				text := func(amis string) string {
					return mark + strings.ReplaceAll(fmt.Sprintf(pinnable, amis), "\n", ending)
				}
				got, err := Pin("f.yaml", []byte(text(c.was)), images)
				if err != nil {
					t.Errorf("%s, %q: %v", name, ending, err)
					continue
				}
				if diff := cmp.Diff(text(c.want), string(got)); diff != "" {
					t.Errorf("%s, %q (-want +got):\n%s", name, ending, diff)
				}
				if _, err := Parse("f.yaml", got); err != nil {
					t.Errorf("%s, %q: %v", name, ending, err)
				}
			}
		}
	}
}

func TestPinRefuses(t *testing.T) {
	id := map[string]string{"eu-west-1/arm64": one, "us-east-1/arm64": two}
	for name, c := range map[string]struct {
		file   string
		images map[string]string
		says   string
	}{
		"no http":          {base, id, "no shard.http"},
		"several lines":    {fmt.Sprintf(pinnable, "amis: {eu-west-1/arm64: \"\\\n      ami-01234567\"}"), id, "write it as plain text"},
		"an escape":        {fmt.Sprintf(pinnable, `amis: {eu-west-1/arm64: "\x61mi-01234567"}`), id, "write it as plain text"},
		"an id that is no": {fmt.Sprintf(pinnable, "amis: {}"), map[string]string{"eu-west-1/arm64": "ami-1"}, "would not be a fleet"},
		"more than an id":  {fmt.Sprintf(pinnable, "amis: {}"), map[string]string{"eu-west-1/arm64": one + "}\n    port: 80 #"}, "would say something else"},
	} {
		out, err := Pin("f.yaml", []byte(c.file), c.images)
		if !errors.Is(err, ErrPin) || out != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	var faults Faults
	for _, text := range []string{"", "service: [", strings.Replace(fmt.Sprintf(pinnable, "amis: {}"), "min: 1", "min: 0", 1), fmt.Sprintf(pinnable, "amis:")} {
		if out, err := Pin("f.yaml", []byte(text), id); !errors.As(err, &faults) && !errors.Is(err, ErrPin) || out != nil {
			t.Errorf("%q: %q, %v", text, out, err)
		}
	}
}

// TestUnpinned: what lacks images is a fleet to ParseUnpinned alone, and says which it needs.
func TestUnpinned(t *testing.T) {
	text := []byte(fmt.Sprintf(pinnable, "amis: {}"))
	if _, err := Parse("f.yaml", text); err == nil || !strings.Contains(err.Error(), "pin-ami") {
		t.Errorf("without images: %v", err)
	}
	f, err := ParseUnpinned("f.yaml", text)
	if err != nil || !slices.Equal(f.ImageKeys(), []string{"eu-west-1/arm64", "us-east-1/arm64"}) {
		t.Errorf("%v, %v", f.ImageKeys(), err)
	}
	if f = parse(t, base); len(f.ImageKeys()) != 0 {
		t.Errorf("without shard.http: %v", f.ImageKeys())
	}
}

// TestInPlace: in files of all makes, damaged ones among them, Pin writes the ids that it is given, or nothing.
func TestInPlace(t *testing.T) {
	files := append(samples(t), fmt.Sprintf(pinnable, "amis: {}"), fmt.Sprintf(pinnable, "amis:\n      eu-west-1/arm64: ami-01234567"))
	pinned := 0
	rapid.Check(t, func(t *rapid.T) {
		file := broken(files).Draw(t, "file")
		if rapid.Bool().Draw(t, "whole") {
			file = rapid.SampledFrom(files).Draw(t, "sample")
		}
		f, err := ParseUnpinned("f.yaml", []byte(file))
		if err != nil || f.Shard.HTTP == nil {
			if out, err := Pin("f.yaml", []byte(file), map[string]string{"eu-west-1/arm64": one}); err == nil {
				t.Fatalf("what is no fleet was pinned: %q", out)
			}
			return
		}
		images := map[string]string{}
		for _, key := range f.ImageKeys() {
			images[key] = rapid.SampledFrom([]string{one, two}).Draw(t, key)
		}
		out, err := Pin("f.yaml", []byte(file), images)
		if err != nil {
			if !errors.Is(err, ErrPin) {
				t.Fatalf("%v", err)
			}
			return
		}
		pinned++
		// Without ids and the keys that were added, both files are the same bytes.
		was, now := file, string(out)
		for _, key := range slices.Sorted(maps.Keys(images)) {
			if _, there := f.Shard.HTTP.AMIs[key]; !there {
				now = cutOnce(now, key+": "+images[key])
			}
		}
		for _, id := range slices.Concat(slices.Collect(maps.Values(f.Shard.HTTP.AMIs)), []string{one, two}) {
			was, now = strings.ReplaceAll(was, id, ""), strings.ReplaceAll(now, id, "")
		}
		if plainer(was) != plainer(now) {
			t.Fatalf("more than ids changed:\n%s", cmp.Diff(file, string(out)))
		}
		if again, err := Pin("f.yaml", out, images); err != nil || string(again) != string(out) {
			t.Fatalf("again: %v\n%s", err, cmp.Diff(string(out), string(again)))
		}
	})
	if pinned == 0 {
		t.Error("nothing was ever pinned")
	}
}

func cutOnce(text, part string) string {
	before, after, _ := strings.Cut(text, part)
	return before + after
}

// plainer is a text without what separates the pairs of a mapping.
func plainer(text string) string {
	return strings.NewReplacer(" ", "", ",", "", "\n", "", "\r", "").Replace(text)
}
