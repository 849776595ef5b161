package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

// record writes what is acknowledged above all stacks into the assembly, for every later audit of it, or takes away what
// an earlier synthesis left there. The CDK itself writes what is acknowledged at stacks and below, and no more.
func record(dir string, all []audit.Acknowledgement) error {
	file := filepath.Join(dir, assembly.AcknowledgedFile)
	if len(all) == 0 {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := assembly.EncodeAcknowledged(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// Off leaves an app without a gate, and its assembly without what an earlier one recorded.
func Off(app awscdk.App) error { return record(*app.Outdir(), nil) }

// acknowledgements are what was acknowledged above all stacks, at a Stage or at what holds it.
func acknowledgements(app constructs.IConstruct) []audit.Acknowledgement {
	return collect(nil, app, *awscdk.Validations_ACKNOWLEDGED_RULES_METADATA_KEY())
}

func collect(all []audit.Acknowledgement, c constructs.IConstruct, key string) []audit.Acknowledgement {
	for _, m := range *c.Node().Metadata() {
		rules, ok := m.Data.(map[string]any)
		if !ok || *m.Type != key {
			continue
		}
		for _, rule := range slices.Sorted(maps.Keys(rules)) {
			all = append(all, audit.Acknowledgement{Path: *c.Node().Path(), Rule: rule, Reason: fmt.Sprint(rules[rule])})
		}
	}
	for _, child := range *c.Node().Children() {
		if !*awscdk.Stack_IsStack(child) {
			all = collect(all, child, key)
		}
	}
	return all
}
