package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// TestAuditVariants: several directories are audited as variants, in every form, with one status for all.
func TestAuditVariants(t *testing.T) {
	t.Chdir(t.TempDir())
	// in the second variant the shards share a table
	for dir, env := range map[string]string{"out/eu": "{}", "out/us": "{TABLE_NAME: all}"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{"shared.yaml": "Resources:\n  Table:\n    Type: AWS::DynamoDB::Table\n    Properties: {TableName: all}\n"}
		for _, s := range []string{"s01", "s02"} {
			files["orders-eu-1-shard-"+s+".yaml"] = "Resources:\n  Worker:\n    Type: AWS::Lambda::Function\n    Properties: {ReservedConcurrentExecutions: 1, Environment: {Variables: " + env + "}}\n"
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if status, out, _ := command("", "audit", "out/eu"); status != ExitDone || strings.Contains(out, "variant") {
		t.Errorf("one alone: status %d\n%s", status, out)
	}
	status, out, errs := command("", "audit", "out/eu", "out/us/")
	if status != ExitFound || !strings.Contains(out, "only   in out/us\n") || !strings.Contains(out, "variant out/eu: 3 stacks, 3 resources, 2 shards\n") || errs != "error: the audit has 1 finding at or above error\n" {
		t.Errorf("status %d, %s\n%s", status, errs, out)
	}

	status, out, _ = command("", "audit", "--json", "out/eu", "out/us")
	var r audit.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != ExitFound {
		t.Fatalf("status %d, %v", status, err)
	}
	if f := r.Findings[0]; f.Rule != "SD002" || !slices.Equal(f.Variants, []string{"out/us"}) || f.Resource.File != "out/us/shared.yaml" || len(r.Variants) != 2 {
		t.Errorf("%+v", f)
	}

	status, out, _ = command("", "audit", "--format", "sarif", "out/eu", "out/us")
	var log struct {
		Runs []struct {
			Results []struct {
				RuleID    string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
				RelatedLocations []struct {
					PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
				}
				Properties struct{ Variants []string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &log); err != nil || status != ExitFound {
		t.Fatalf("status %d, %v", status, err)
	}
	res := log.Runs[0].Results[0]
	at := res.Locations[0].PhysicalLocation
	if res.RuleID != "SD002" || !strings.Contains(res.Message.Text, "Only in out/us.") || !slices.Equal(res.Properties.Variants, []string{"out/us"}) ||
		at.ArtifactLocation.URI != "out/us/shared.yaml" || at.Region.StartLine != 2 || res.RelatedLocations[0].PhysicalLocation.ArtifactLocation.URI != "out/us/orders-eu-1-shard-s01.yaml" {
		t.Errorf("%+v", res)
	}

	status, out, _ = command("", "audit", "--format", "html", "out/eu", "out/us")
	if status != ExitFound || !strings.Contains(out, `<dt>only in</dt><dd><bdi class="chip">out/us</bdi> </dd>`) || !strings.Contains(out, "<li>variant <bdi>out/eu</bdi>: 3 stacks") {
		t.Errorf("status %d\n%s", status, out)
	}

	for name, args := range map[string][]string{
		"twice":         {"out/eu", "out/us/../eu"},
		"none":          {},
		"an empty name": {"out/eu", ""},
		"one is no DIR": {"out/eu", "out/ap"},
		"beside one":    {"--before", "out/eu", "out/eu", "out/us"},
	} {
		if status, _, errs := command("", slices.Concat([]string{"audit"}, args)...); status != ExitUsage || errs == "" {
			t.Errorf("%s: status %d, %s", name, status, errs)
		}
	}
}
