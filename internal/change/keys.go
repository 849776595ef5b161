package change

import (
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

const typeAlias = "AWS::KMS::Alias"

// keyed is a type of resources whose data is encrypted by a KMS key that can change where the resource is. left
// and taken say what becomes of the data that is there when another key comes: left of what its own key was needed
// for until then, taken of what AWS's key was.
type keyed struct {
	at          []string // the path of the key; * is any element of a list
	left, taken string
}

// keyedTypes are the types that keep data under a key. Sources: Amazon DynamoDB developer guide, encryption at rest
// and backups (a table's own key is encrypted anew, its backups are not); Amazon S3 user guide, default encryption
// (existing objects stay as they are); Amazon SQS developer guide, encryption at rest (the backlog does);
// CloudWatch Logs API, DisassociateKmsKey; AWS Secrets Manager user guide, changing the encryption key of a secret.
var keyedTypes = map[string]keyed{
	"AWS::DynamoDB::GlobalTable": {[]string{"Replicas", "*", "SSESpecification", "KMSMasterKeyId"}, backups, tableTaken},
	"AWS::DynamoDB::Table":       {[]string{"SSESpecification", "KMSMasterKeyId"}, backups, tableTaken},
	"AWS::Logs::LogGroup": {[]string{"KmsKeyId"}, "events that are there stay under it until their retention ends",
		"events that are there stay under the key of before; new ones come under the new key"},
	"AWS::S3::Bucket": {[]string{"BucketEncryption", "ServerSideEncryptionConfiguration", "*", "ServerSideEncryptionByDefault", "KMSMasterKeyID"},
		"objects that are there stay under it until each is written anew",
		"objects that are there stay under the key of before until each is written anew; new ones come under the new key"},
	"AWS::SQS::Queue": {[]string{"KmsMasterKeyId"}, "messages that wait stay under it until they are taken out",
		"messages that wait stay under the key of before; new ones come under the new key"},
	"AWS::SecretsManager::Secret": {[]string{"KmsKeyId"}, "values that are neither the current, the next nor the previous one stay under it",
		"values that are neither the current, the next nor the previous one stay under the key of before"},
}

const (
	backups    = "the table comes under the other key, but backups made until then can be restored only with the old one"
	tableTaken = "the table comes under the new key; backups made until then stay under the key of before"
)

// keysOf are the customers' keys that a resource's data is encrypted by, each once: a logical id, or the text of
// the expression. Keys that AWS manages cannot be lost, and are none.
func keysOf(s *audit.Stack, r *template.Resource) []string {
	kind, ok := keyedTypes[r.Type]
	if !ok {
		return nil
	}
	var keys []string
	at(r.Properties, kind.at, func(n template.Node) {
		if key := keyName(s, n); key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	})
	return keys
}

// at visits the values of a node at a path.
func at(n template.Node, path []string, visit func(template.Node)) {
	switch {
	case len(path) == 0:
		visit(n)
	case path[0] == "*":
		for i := range n.Len() {
			at(n.At(i), path[1:], visit)
		}
	default:
		if v, ok := n.Get(path[0]); ok {
			at(v, path[1:], visit)
		}
	}
}

// keyName is what tells a key from others: the id, the ARN and the alias of one of the stack are the same.
func keyName(s *audit.Stack, n template.Node) string {
	for range 2 { // an alias leads to its key, a key to nothing
		var ids []string
		template.Uses(n, func(u template.Use) {
			if u.Kind == template.UseRef || u.Kind == template.UseGetAtt {
				ids = append(ids, u.Name)
			}
		})
		if len(ids) != 1 || !isCall(n) {
			break
		}
		r := find(&s.Template, ids[0])
		if r == nil {
			break
		}
		target, ok := r.Properties.Get("TargetKeyId")
		if r.Type != typeAlias || !ok {
			return r.ID
		}
		n = target
	}
	name, ok := literal(scope(s), n)
	if !ok {
		data, _ := n.MarshalJSON() // only strings could fail, and they do not
		return string(data)
	}
	if strings.HasPrefix(name[strings.LastIndexByte(name, ':')+1:], "alias/aws/") { // in an ARN, or alone
		return ""
	}
	return name
}

// rekeyed says which keys the data of a resource leaves, and whether it comes from AWS's to another.
func rekeyed(a, b *audit.Stack, old, r *template.Resource) (leaves []string, takes bool) {
	next := keysOf(b, r)
	leaves = keysOf(a, old)
	takes = len(leaves) == 0 && len(next) > 0
	return slices.DeleteFunc(leaves, func(key string) bool { return slices.Contains(next, key) }), takes
}

// AcceptKeyChange is the name of the refusals that AcceptKeyChanges takes back.
const AcceptKeyChange = "key-change"

// leavesKey refuses to take data from the key that it is encrypted by.
func (e *Resource) leavesKey() Refusal {
	keys := make([]string, len(e.leaves))
	for i, key := range e.leaves {
		keys[i] = unique.ReplaceAllString(key, "")
	}
	return Refusal{
		Resource: e.ID, Accept: AcceptKeyChange,
		What: "takes " + label(e) + " from its KMS key " + strings.Join(keys, ", "),
		Why:  keyedTypes[e.Type].left + ": readable while that key is there, by those who may use it",
		Next: "leave it as it is; or know what becomes of that data, and accept the change with the reason (--accept-key-change)",
	}
}

// AcceptKeyChanges takes back the refusals that are of data that leaves its key, since somebody knows what becomes of
// that data. The reason is for the record.
func (r *Report) AcceptKeyChanges(reason string) {
	r.Refused = slices.DeleteFunc(r.Refused, func(e Refusal) bool {
		if e.Accept != AcceptKeyChange {
			return false
		}
		r.Accepted = append(r.Accepted, Accepted{e, reason})
		return true
	})
}
