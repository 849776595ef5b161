package audit_test

import (
	"fmt"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// TestPermissionsBoundary holds that a policy of the account that bounds the roles of shards is expected to be shared,
// and that one which also grants them something is not.
func TestPermissionsBoundary(t *testing.T) {
	const policy = "arn:aws:iam::111111111111:policy/team"
	for name, c := range map[string]struct {
		role  object
		level audit.Level
	}{
		"boundary":        {object{"PermissionsBoundary": policy}, audit.Info},
		"grant":           {object{"ManagedPolicyArns": []any{policy}}, audit.Warning},
		"both":            {object{"PermissionsBoundary": policy, "ManagedPolicyArns": []any{policy}}, audit.Warning},
		"grant elsewhere": {object{"ManagedPolicyArns": []any{policy}, "Path": "/"}, audit.Warning},
	} {
		t.Run(name, func(t *testing.T) {
			s := stackSet{}
			for i := range 2 {
				role := object{"PermissionsBoundary": policy}
				if i == 1 || name == "boundary" || name == "grant" {
					role = c.role
				}
				s.put(shardStackName(fmt.Sprint("s0", i)), "Role", "AWS::IAM::Role", role)
			}
			r := s.run(t)
			if len(r.Findings) != 1 || r.Findings[0].Level != c.level || r.Findings[0].Rule != "SI001" {
				t.Errorf("found %+v, want one %s", r.Findings, c.level)
			}
		})
	}
}
