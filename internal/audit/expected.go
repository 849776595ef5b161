package audit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// expectedRoles are the values of the tag cellwall:role that say that sharing is meant, with the
// reason. They hold only for a resource that is no shard's.
var expectedRoles = map[string]string{
	"cell-store":    "shared by decision (state.mode: cell): every member of a subset must reach it; a fault in it is a fault of the cell",
	"router":        "every request of the cell passes the router by design; it keeps no state and scales by itself",
	"api":           "the cell's ingress, which every request passes by design",
	"directory":     "the tenant directory, read through caches that outlive it",
	"placement-key": "the cell's placement key, read once and kept",
	"dispatch":      "jobs that the router places again; a shard sends there what is not its own, and serves without",
	"keeper":        "writes snapshots; nothing on a request's path waits for it",
}

// bootstrapBucket is the bucket that cdk bootstrap makes for assets (the default synthesizer's
// fileAssetsBucketName).
var bootstrapBucket = regexp.MustCompile(`^cdk-[a-z0-9]{1,10}-assets-[a-z0-9-]+$`)

// expected says why sharing this resource is no hole in the wall, or "". What belongs to a shard is
// never expected to be shared.
func (g *graph) expected(i int32) string {
	n := &g.nodes[i]
	if n.shard >= 0 {
		return ""
	}
	if reason := traitsOf(n.typ).expected; reason != "" {
		return reason
	}
	if n.stack < 0 {
		if n.typ == "AWS::S3::Bucket" && bootstrapBucket.MatchString(n.name) {
			return "the account's CDK assets: read when a function or an instance is made, and not by what runs"
		}
		if g.boundaries[i] {
			return "the account's permissions boundary: it grants nothing, and every role of the account has it by its owner's decision"
		}
		return ""
	}
	if g.routerGroups[i] {
		return expectedRoles["router"]
	}
	if reason := expectedRoles[n.tags[names.TagRole]]; reason != "" {
		return reason
	}
	return g.expectedName(n)
}

// ruleEgress is for what is expected to be shared within a cell, and not by cells.
var ruleEgress = rule{"SD014", Error, "NAT gateway or endpoint", "give each cell its own: what the shards of one cell share on their way out, a cell bounds"}

// beyondCell judges what is expected to be shared within a cell when shards of several cells depend on it. What
// is the fleet's or the account's (the directory, the assets' bucket, a boundary) and a name zone stay expected.
func (g *graph) beyondCell(f *finding, reason string) bool {
	cells := map[place]bool{}
	for _, i := range f.shards {
		cells[g.shards[i].cell()] = true
	}
	if len(cells) < 2 {
		return false
	}
	n := &g.nodes[f.node]
	switch {
	case n.typ == "AWS::EC2::NatGateway" || n.typ == "AWS::EC2::VPCEndpoint":
		f.rule, f.level = &ruleEgress, ruleEgress.level
	case reason == network:
		f.level = Warning
	case reason == expectedRoles["directory"] || n.stack < 0 || !slices.Contains(slices.Collect(maps.Values(expectedRoles)), reason):
		return false
	}
	f.reason = fmt.Sprintf("it is expected within one cell, and shards of %d depend on it", len(cells))
	return true
}

// expectedName recognises the fleet's own shared parts by the names that cellwall derives for them.
func (g *graph) expectedName(n *node) string {
	p := g.places[n.stack]
	if p.Service == "" || p.ID != "" {
		return ""
	}
	fleet := names.ForFleet(p.Service)
	if n.typ == "AWS::DynamoDB::Table" || n.typ == "AWS::DynamoDB::GlobalTable" {
		if n.name == fleet.DirectoryTable() {
			return expectedRoles["directory"]
		}
	}
	if p.Cell == "" {
		return ""
	}
	cell, kept := fleet.Cell(p.Cell), names.AnyGeneration(n.name)
	switch {
	case n.typ == typeFunction && n.name == cell.Router(),
		n.typ == "AWS::IAM::Role" && n.name == cell.RouterRole():
		return expectedRoles["router"]
	case n.typ == "AWS::ApiGatewayV2::Api" && n.res.Properties.GetString("Name") == cell.API():
		return expectedRoles["api"]
	case n.typ == "AWS::DynamoDB::Table" && kept == cell.Store(), n.typ == "AWS::DynamoDB::GlobalTable" && kept == cell.Store():
		return expectedRoles["cell-store"]
	case n.typ == "AWS::SecretsManager::Secret" && kept == cell.PlacementKey():
		return expectedRoles["placement-key"]
	case n.typ == "AWS::SQS::Queue" && (kept == cell.Dispatch() || kept == cell.DispatchDeadLetters()):
		return expectedRoles["dispatch"]
	}
	return ""
}

// findRouterGroups finds the security groups of the cells' routers, which every shard's load balancer
// lets in.
func (g *graph) findRouterGroups() {
	g.routerGroups = map[int32]bool{}
	for i := range int32(len(g.nodes)) {
		n := &g.nodes[i]
		if n.kind != resourceNode || n.typ != typeFunction || g.expectedName(n) == "" {
			continue
		}
		for _, to := range g.named(i, "VpcConfig") {
			if g.nodes[to].typ == "AWS::EC2::SecurityGroup" {
				g.routerGroups[to] = true
			}
		}
	}
}

// findBoundaries finds the managed policies outside of what was read that roles have as their permissions boundary and
// as nothing else.
func (g *graph) findBoundaries() {
	g.boundaries = map[int32]bool{}
	for i := range int32(len(g.nodes)) {
		for _, e := range g.out[i] {
			if to := &g.nodes[e.to]; to.stack >= 0 || to.typ != "AWS::IAM::ManagedPolicy" {
				continue
			}
			only, seen := g.boundaries[e.to]
			g.boundaries[e.to] = (only || !seen) && g.nodes[i].typ == "AWS::IAM::Role" && firstKey(e.at) == "PermissionsBoundary"
		}
	}
}
