package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const smallFleet = `service: orders
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders}
shard:
  capacity: 500
  lambda: {asset: dist/worker, reservedConcurrency: 20}
cells:
  - {name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4}
  - {name: us-1, account: "111111111111", region: us-east-1, zones: [a, b], shards: 12}
alerts: {topicArn: "arn:aws:sns:eu-west-1:111111111111:oncall"}
`

// inFolder writes the file as fleet.yaml and makes its folder the current one.
func inFolder(t *testing.T, fleet string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("fleet.yaml", []byte(fleet), 0o600); err != nil {
		t.Fatal(err)
	}
}

func runFleet(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), append([]string{"fleet"}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestFleetValidateSumsUp(t *testing.T) {
	inFolder(t, smallFleet)
	code, out, errs := runFleet(t, "validate")
	if code != ExitDone {
		t.Fatalf("exit status %d:\n%s", code, errs)
	}
	want := `service orders: 2 cells, 16 shards

cell  account       region     zones  shards
eu-1  111111111111  eu-west-1  a b    4
us-1  111111111111  us-east-1  a b    12

wave  cells  shards reached  bake
1     eu-1   25%             0s
2     us-1   100%            0s

account       region     reserved concurrency  of    still to reserve
111111111111  eu-west-1  181                   1000  719
111111111111  us-east-1  341                   1000  559
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("standard output (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("fleet.yaml:9:51: note: nobody is told of the alarms of cell us-1: alerts has no topic in us-east-1; add one under alerts.topics\n", errs); diff != "" {
		t.Errorf("standard error (-want +got):\n%s", diff)
	}
}

func TestFleetValidateTellsEveryFault(t *testing.T) {
	inFolder(t, strings.NewReplacer("capacity", "capcity", "shards: 12", "shards: 1").Replace(smallFleet))
	for _, args := range [][]string{{"validate"}, {"validate", "fleet.yaml"}, {"validate", "--fleet", "fleet.yaml"}} {
		code, out, errs := runFleet(t, args...)
		if code != ExitUsage || out != "" {
			t.Errorf("%v: exit status %d, standard output %q", args, code, out)
		}
		want := `fleet.yaml:5:3: unknown key "capcity": nothing reads it in shard; did you mean capacity?
fleet.yaml:9:85: cell us-1 has 1 shard: placement.perTenant = 2 gives every tenant more than that; write at least 2 shards here, or at most 1 there
error: fleet.yaml has 2 faults
`
		if diff := cmp.Diff(want, errs); diff != "" {
			t.Errorf("%v: standard error (-want +got):\n%s", args, diff)
		}
	}
}

func TestFleetValidateJSON(t *testing.T) {
	var got struct {
		Valid       bool
		Faults      []struct{ Line, Col int }
		Notes       []struct{ Path string }
		Cells       []struct{ Shards []string }
		Waves       []struct{ Cells []string }
		Concurrency []struct{ Left int }
	}
	inFolder(t, smallFleet)
	code, out, _ := runFleet(t, "validate", "--json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != ExitDone {
		t.Fatalf("exit status %d, %v in %s", code, err, out)
	}
	if !got.Valid || len(got.Faults) != 0 || len(got.Notes) != 1 || len(got.Cells) != 2 || len(got.Cells[1].Shards) != 12 || len(got.Waves) != 2 || got.Concurrency[1].Left != 559 {
		t.Errorf("a valid fleet: %s", out)
	}
	inFolder(t, strings.Replace(smallFleet, "shards: 12", "shards: 1", 1))
	code, out, errs := runFleet(t, "validate", "--json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != ExitUsage {
		t.Fatalf("exit status %d, %v in %s", code, err, out)
	}
	if got.Valid || len(got.Faults) != 1 || got.Faults[0].Line != 9 || got.Faults[0].Col != 85 || errs != "error: fleet.yaml has 1 fault\n" {
		t.Errorf("a fleet with a fault: %s%s", out, errs)
	}
}

func TestFleetWrongUse(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"validate"}, "open fleet.yaml: no such file or directory"},
		{[]string{"validate", "--json", "none.yaml"}, "open none.yaml: no such file or directory"},
		{[]string{"validate", "a", "b"}, "accepts at most 1 arg(s)"},
		{[]string{"validate", "--jsn"}, "unknown flag: --jsn"},
		{[]string{"schema", "x"}, "accepts 0 arg(s)"},
		{[]string{"valid"}, `unknown command "valid" for cellwall fleet`},
	} {
		code, out, errs := runFleet(t, c.args...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, c.want) || !strings.Contains(errs, "\nhint: ") {
			t.Errorf("%v: exit status %d, output %q, errors:\n%s", c.args, code, out, errs)
		}
	}
}

func TestFleetSchemaIsTheFileInDocs(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("..", "..", "docs", "fleet.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := runFleet(t, "schema")
	if code != ExitDone || errs != "" || out != string(want) {
		t.Errorf("exit status %d, %d bytes for the file's %d\n%s", code, len(out), len(want), errs)
	}
}
