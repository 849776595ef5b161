package audit_test

import (
	"slices"
	"testing"
)

// TestOrderOfAnotherStack: what a shared stack makes before a table that shards use keeps no shard's own
// stack waiting; in the shards' own stack, or around it, it does.
func TestOrderOfAnotherStack(t *testing.T) {
	for name, oneStack := range map[string]bool{"stacks of their own": false, "one stack": true} {
		s, place := cleanFleet(oneStack)
		shared := core
		if oneStack {
			shared = "everything"
		}
		s.put(shared, "Before", "AWS::SQS::Queue", object{})
		s.put(shared, "Store", "AWS::DynamoDB::Table", object{"TableName": "orders-eu-1-store"})
		s.section(shared, "Resources")["Store"].(object)["DependsOn"] = "Before"
		for _, sh := range []string{"s01", "s03"} {
			st, p := place(sh)
			setenv(s.section(st, "Resources")[p+"Worker"].(object), "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-eu-1-store")
		}
		var found []string
		for _, f := range s.run(t).Findings {
			if slices.Contains([]string{"Before", "Store"}, f.Resource.LogicalID) {
				found = append(found, f.Resource.LogicalID+" "+f.Rule)
			}
		}
		slices.Sort(found)
		want := []string{"Store SD002"}
		if oneStack {
			want = []string{"Before SI007", "Store SD002"}
		}
		if !slices.Equal(found, want) {
			t.Errorf("%s: found %v, want %v", name, found, want)
		}
	}
}
