package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// defaultRules is how many rules a region's default event bus takes by itself (Amazon EventBridge quotas, "Number of
// rules").
func defaultRules(region string) int {
	if region == "af-south-1" || region == "eu-south-1" {
		return 100
	}
	return 300
}

// ruleUse is the rules of EventBridge that cells and a front door have in one account and region.
type ruleUse struct {
	account, region string
	rules           int
	cells           []int // indices
	frontDoor       bool
}

// eventRules counts the rules by account and region, in that order: one of each keeper, and one of each shard for each
// schedule.
func (f *Fleet) eventRules() []ruleUse {
	uses := map[string]*ruleUse{}
	at := func(account, region string) *ruleUse {
		key := account + " " + region
		if uses[key] == nil {
			uses[key] = &ruleUse{account: account, region: region}
		}
		return uses[key]
	}
	for i, cell := range f.Cells {
		u := at(cell.Account, cell.Region)
		u.rules += 1 + len(cell.Shards)*len(f.Shard.Schedules)
		u.cells = append(u.cells, i)
	}
	for _, region := range f.FrontDoors() {
		u := at(f.Directory.Account, region)
		u.rules++
		u.frontDoor = true
	}
	var all []ruleUse
	for _, key := range slices.Sorted(maps.Keys(uses)) {
		all = append(all, *uses[key])
	}
	return all
}

// events sees that no account and region has more rules than its default event bus takes.
func (c *checker) events() {
	if !c.known("shard.schedules", "frontDoor", "directory") {
		return
	}
	for _, u := range c.f.eventRules() {
		limit := c.f.Account(u.account).EventRules
		if limit == 0 {
			limit = defaultRules(u.region)
		}
		if u.rules <= limit || !c.known("accounts."+u.account) {
			continue
		}
		at, fix := "shard.schedules", "have fewer schedules, or"
		if len(c.f.Shard.Schedules) == 0 {
			at, fix = "cells", "put cells into other accounts or regions, or"
		}
		var sums []string
		known := true
		for _, i := range u.cells {
			known = known && c.counted(i) && c.known(cellPath(i, "account"), cellPath(i, "region"))
			sums = append(sums, fmt.Sprintf("%s %d × %d + 1", c.called(i), len(c.f.Cells[i].Shards), len(c.f.Shard.Schedules)))
		}
		if !known {
			continue
		}
		const most = 6
		if len(sums) > most {
			sums = append(sums[:most], fmt.Sprintf("and %d more cells", len(u.cells)-most))
		}
		if u.frontDoor {
			sums = append(sums, "front door 1")
		}
		c.wrong(at, fmt.Sprintf("account %s has %d rules of EventBridge in %s (%s)", u.account, u.rules, u.region, strings.Join(sums, ", ")),
			fmt.Sprintf("its default event bus takes %d", limit),
			fmt.Sprintf("%s have AWS raise the quota to %d or more and write that as accounts.%q.eventRules", fix, u.rules, u.account))
	}
}
