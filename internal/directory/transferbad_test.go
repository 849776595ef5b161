package directory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

func TestVetReportsEveryBadLine(t *testing.T) {
	d := directorytest.Fill(t, directory.NewMemory())
	check, err := d.Checker(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const csv = "\ufefftenant,cell,load,pins,state,topology,size\r\n" +
		"good,eu-1,1.5,s01 s02,,3,\r\n" +
		"\r\n" +
		"bad load,eu-1,much,,,3,\r\n" +
		"good,us-1,1,,,3,\r\n" +
		",eu-1,1,,,3,\r\n" +
		"bad pin,eu-1,1,s09,,3,\r\n" +
		"\"open,eu-1,1,,,3,\r\n" +
		"few,eu-1\r\n" +
		"bad cell,nowhere,1,,,3,\r\n" +
		"bad topology,eu-1,1,,,9,\r\n" +
		"bad size,eu-1,1,,,3,shark\r\n" +
		"bad state,eu-1,1,,moving,3,\r\n" +
		"no state,eu-1,1,,asleep,3,\r\n" +
		"negative,eu-1,-1,,,3,\r\n" +
		"also good,eu-1,,,suspended,,whale"
	var got []int
	report := func(f directory.Fault) {
		got = append(got, f.Line)
		if f.Error() == "" {
			t.Errorf("line %d: no reason", f.Line)
		}
	}
	bad, good, err := directory.Vet(directory.ReadEntries(strings.NewReader(csv), directory.CSV), check, report)
	if err != nil || good != 2 || bad != len(got) {
		t.Errorf("%d good, %d bad, %v; want 2 and %d", good, bad, err, len(got))
	}
	if want := []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; !slices.Equal(got, want) {
		t.Errorf("faults on lines %v, want %v", got, want)
	}
}

// TestVetReportsBadJSON has lines that a lenient reader takes, or takes for another tenant's.
func TestVetReportsBadJSON(t *testing.T) {
	d := directorytest.Fill(t, directory.NewMemory())
	check, err := d.Checker(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for text, words := range map[string]string{
		`{"tenant":"b","cell":"eu-1","colour":"red"}`: `"colour"`,
		`{"tenant":"b","Cell":"eu-1"}`:                `"Cell"`,
		`{"tenant":"b","tenant":"c","cell":"eu-1"}`:   "twice",
		`{"tenant":"c","cell":"eu-1"} {}`:             "more than one",
		`{"tenant":"c","cell":"eu-1"}]`:               "more than one",
		`{`:                                           "ends too early",
		`{"tenant":"c","cell":"eu-1"`:                 "ends too early",
		`{"tenant":"c","cell":}`:                      "invalid",
		`[]`:                                          "JSON object",
		`null`:                                        "JSON object",
		`"a"`:                                         "JSON object",
		"{\"tenant\":\"\xff\",\"cell\":\"eu-1\"}":          "UTF-8",
		`{"tenant":"\ud800","cell":"eu-1"}`:                "UTF-8",
		`{"tenant":"\\\udc00x","cell":"eu-1"}`:             "UTF-8",
		`{"tenant":"\ud800\ud800","cell":"eu-1"}`:          "UTF-8",
		`{"tenant":7,"cell":"eu-1"}`:                       "number",
		`{"tenant":"c","cell":"eu-1","load":"1"}`:          "string",
		`{"tenant":"c","cell":"eu-1","load":1e400}`:        "1e400",
		`{"tenant":"c","cell":"eu-1","epoch":-1}`:          "number",
		`{"tenant":"c","cell":"eu-1","created":"today"}`:   "today",
		"{\"tenant\":\"c\x00\",\"cell\":\"eu-1\"}":         "invalid",
		`{"tenant":"` + strings.Repeat("x", 10<<20) + `"}`: "bytes",
	} {
		// The lines before and behind it are good.
		file := `{"tenant":"a","cell":"eu-1"}` + "\n" + text + "\n" + `{"tenant":"\ud83d\udd12 \\ud800","cell":"eu-1"}`
		var faults []directory.Fault
		bad, good, err := directory.Vet(directory.ReadEntries(strings.NewReader(file), directory.JSONLines), check, func(f directory.Fault) { faults = append(faults, f) })
		if err != nil || good != 2 || bad != 1 || faults[0].Line != 2 || !strings.Contains(faults[0].Error(), words) {
			t.Errorf("%.60s: %d good, faults %v, %v; want one on line 2 with %q", text, good, faults, err, words)
		}
	}
}

// Lines that differ only in how a file is written come to the same entries.
func TestTheSameFileInOtherClothes(t *testing.T) {
	for _, c := range []struct {
		name, plain, other string
		format             directory.FileFormat
	}{
		{"byte order mark", "tenant,cell\na,eu-1\n", "\ufefftenant,cell\na,eu-1\n", directory.CSV},
		{"byte order mark", `{"tenant":"a"}`, "\ufeff" + `{"tenant":"a"}`, directory.JSONLines},
		{"ends of Windows", "tenant,cell\na,eu-1\nb,eu-1", "tenant,cell\r\na,eu-1\r\nb,eu-1\r\n", directory.CSV},
		{"ends of Windows", `{"tenant":"a"}` + "\n" + `{"tenant":"b"}`, `{"tenant":"a"}` + "\r\n" + `{"tenant":"b"}` + "\r\n", directory.JSONLines},
		{"columns in another order", "tenant,cell\na,eu-1\n", "cell,tenant\neu-1,a\n", directory.CSV},
		{"escapes", `{"tenant":"ä\n"}`, `{ "tenant" : "\u00e4\u000a" }`, directory.JSONLines},
		{"times of another zone", `{"tenant":"a","created":"2026-11-30T10:20:30Z"}`, `{"tenant":"a","created":"2026-11-30T12:20:30+02:00"}`, directory.JSONLines},
		{"times of another zone", "tenant,created\na,2026-11-30T10:20:30Z\n", "tenant,created\na,2026-11-30T12:20:30+02:00\n", directory.CSV},
	} {
		plain, err := read(t, c.plain, c.format)
		if err != nil {
			t.Fatal(err)
		}
		other, err := read(t, c.other, c.format)
		if diff := cmp.Diff(plain, other, cmpopts.EquateErrors()); err != nil || diff != "" || len(plain) == 0 || plain[0].Fault != nil {
			t.Errorf("%s, %s: %v (-plain +other):\n%s", c.name, c.format, err, diff)
		}
		if a, b := fmt.Sprint(plain), fmt.Sprint(other); a != b {
			t.Errorf("%s, %s: %s, want %s", c.name, c.format, b, a)
		}
	}
}

// A line that is too long, and a quotation mark that stays open, spoil that line alone.
func TestABadLineOfCSVSpoilsNoOther(t *testing.T) {
	text := "tenant,cell\na,eu-1\n" + strings.Repeat("x", 10<<20) + ",eu-1\nb,eu-1\n\"open,eu-1\nc\x00,eu-1\n \nd\"e,eu-1\n\"f,\"\"\",eu-1\n"
	got, err := read(t, text, directory.CSV)
	if err != nil {
		t.Fatal(err)
	}
	var ids, faults []string
	for _, line := range got {
		if line.Fault != nil {
			faults = append(faults, fmt.Sprint(line.Number))
			continue
		}
		ids = append(ids, line.Entry.Tenant)
	}
	if want := []string{"a", "b", "c\x00", `f,"`}; !slices.Equal(ids, want) {
		t.Errorf("tenants %q, want %q", ids, want)
	}
	if want := []string{"3", "5", "7", "8"}; !slices.Equal(faults, want) {
		t.Errorf("faults on lines %q, want %q", faults, want)
	}
}
