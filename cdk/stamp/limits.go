package stamp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"cellwall.dev/cellwall/internal/template"
)

// noResourceLimit switches off the CDK's own limit on a template's resources, which stops at the first stack and
// knows no fleet file.
const noResourceLimit = "@aws-cdk/core:stackResourceLimit"

// leaveLimits has the CDK's validation leave to checkTemplates what that finds with its place in the fleet: too many
// parameters, outputs and resources.
func leaveLimits(app awscdk.App) {
	for _, rule := range []string{"F0003", "F0004", "F0007"} {
		awscdk.Validations_Of(app).Acknowledge(&awscdk.Acknowledgment{
			Id: str("CloudFormation-Validate::" + rule), Reason: str("refused after synthesis, with the fleet's line")})
	}
}

// Limits of AWS on what a template may hold (AWS CloudFormation, "Understand CloudFormation quotas", and "Get values
// stored in other services using dynamic references"; Amazon EC2, "Run commands when you launch an EC2 instance";
// Amazon DynamoDB, "Resource-based policy considerations").
const (
	maxTemplate       = 1_000_000 // bytes, of a template that is uploaded
	maxResources      = 500
	maxParameters     = 200
	maxOutputs        = 200
	maxDynamic        = 60     // dynamic references
	maxUserData       = 16_384 // bytes, before they are encoded
	maxResourcePolicy = 20_480 // bytes, of a table's resource-based policy
)

// excess is a number in a template that is over AWS's limit.
type excess struct {
	what  string // what there is too much of
	n     int
	limit int
}

// exceeded are the limits that a template breaks. AWS would say so in the middle of a deployment, and of some only
// once the resource is made.
func exceeded(data []byte) ([]excess, error) {
	root, err := template.DecodeJSON(data)
	if err != nil {
		return nil, err
	}
	t, err := template.Parse(root)
	if err != nil {
		return nil, err
	}
	all := []excess{
		{"bytes", len(data), maxTemplate},
		{"resources", len(t.Resources), maxResources},
		{"parameters", len(t.Parameters), maxParameters},
		{"outputs", len(t.Outputs), maxOutputs},
		{"dynamic references", strings.Count(string(data), "{{resolve:"), maxDynamic},
	}
	for _, r := range t.Resources {
		switch r.Type {
		case "AWS::EC2::LaunchTemplate":
			all = append(all, excess{"bytes of user data in " + r.ID, len(userDataOf(r)), maxUserData})
		case "AWS::DynamoDB::GlobalTable":
			all = append(all, tablePolicies(r)...)
		}
	}
	return slices.DeleteFunc(all, func(e excess) bool { return e.n <= e.limit }), nil
}

// userDataOf is a launch template's start script.
func userDataOf(r template.Resource) string {
	n := r.Properties
	for _, key := range []string{"LaunchTemplateData", "UserData", "Fn::Base64"} {
		n, _ = n.Get(key)
	}
	text, _ := n.Str()
	return text
}

// tablePolicies are the sizes of the policies of a global table's replicas.
func tablePolicies(r template.Resource) []excess {
	var all []excess
	replicas, _ := r.Properties.Get("Replicas")
	for i := range replicas.Len() {
		policy, _ := replicas.At(i).Get("ResourcePolicy")
		document, ok := policy.Get("PolicyDocument")
		if !ok {
			continue
		}
		text, err := document.MarshalJSON() // as AWS counts it, without spaces
		if err != nil {
			continue // it was decoded from JSON
		}
		all = append(all, excess{"bytes of policy for " + r.ID + " in " + replicas.At(i).GetString("Region"), len(text), maxResourcePolicy})
	}
	return all
}

// finish writes the cloud assembly, and takes it back when a template in it breaks a limit of AWS: nothing may
// deploy the half of a fleet that fits.
func finish(app awscdk.App, in Input) error {
	app.Synth(nil)
	if err := in.checkTemplates(app); err != nil {
		return errors.Join(err, os.Remove(filepath.Join(*app.Outdir(), "manifest.json")))
	}
	return nil
}

// checkTemplates refuses templates that break a limit of AWS, each by what stands for it in the fleet.
func (in Input) checkTemplates(app awscdk.App) error {
	var faults []error
	for _, stage := range stages(app) {
		for _, c := range *stage.Node().Children() {
			st, ok := c.(awscdk.Stack)
			if !ok {
				continue
			}
			data, err := os.ReadFile(filepath.Join(*stage.Outdir(), *st.TemplateFile()))
			if err != nil {
				return fmt.Errorf("the template of %s cannot be checked: %w", *st.StackName(), err)
			}
			over, err := exceeded(data)
			if err != nil {
				return fmt.Errorf("the template of %s cannot be checked: %w", *st.StackName(), err)
			}
			path, fix := in.cause(*st.Node().Path())
			for _, e := range over {
				faults = append(faults, in.At.Fault(path, fmt.Sprintf("stack %s has %d %s", *st.StackName(), e.n, e.what),
					fmt.Sprintf("AWS takes %d", e.limit), fix))
			}
		}
	}
	return errors.Join(faults...)
}

// stages are the app, which is a stage itself, and the cells in it.
func stages(app awscdk.App) []awscdk.Stage {
	all := []awscdk.Stage{app}
	for _, c := range *app.Node().Children() {
		if stage, ok := c.(awscdk.Stage); ok {
			all = append(all, stage)
		}
	}
	return all
}

// cause is what in the fleet a stack's size follows from, by the stack's construct path, and what would make it
// smaller.
func (in Input) cause(stack string) (path, fix string) {
	cell, part, ok := strings.Cut(stack, "/")
	place := slices.Index(cellNames(in.Fleet), cell)
	switch {
	case !ok || place < 0: // global, or a front door
		return "cells", "describe the fleet as several services"
	case strings.HasPrefix(part, "shard-"):
		return "shard", "leave parts of the shard out, or schedules"
	case part == "core" && in.Fleet.Shard.HTTP != nil && in.Fleet.Shard.HTTP.Ingress.Group > 0:
		return "shard.http.ingress", "write per-shard or larger groups, or split cell " + cell
	default:
		return atCell(place, "shards"), "split the cell"
	}
}

// atCell and atShard name values of a cell and of one of its shards as the fleet's faults do.
func atCell(cell int, key string) string { return fmt.Sprintf("cells[%d].%s", cell, key) }
func atShard(shard int, key string) string {
	return fmt.Sprintf("shards[%d].%s", shard, key) // within the cell
}
