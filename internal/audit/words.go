package audit

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// wordy are the properties whose strings are scripts, documents or lists of settings.
var wordy = map[string]bool{"UserData": true, "Environment": true, "Variables": true, "Command": true, "EntryPoint": true,
	"DefinitionString": true, "ZipFile": true, "Content": true, "content": true, "command": true, "Body": true, "Value": true}

// typeWords are further words by which people call what a rule is about, beside its type's own name.
var typeWords = map[*rule][]string{
	&ruleLoadBalancer: {"loadbalancer", "alb", "nlb"},
	&ruleTable:        {"table", "dynamo", "store"},
	&ruleQueue:        {"queue", "sqs", "broker"},
	&ruleBucket:       {"bucket"},
	&ruleStream:       {"stream", "kafka"},
	&ruleCache:        {"cache", "redis", "valkey", "memcached"},
	&ruleDatabase:     {"database", "dbhost", "dbcluster", "dbproxy", "opensearch"},
	&ruleFunction:     {"function", "lambda"},
	&ruleTopic:        {"topic", "eventbus", "busname", "busarn", "sns"},
	&ruleRole:         {"role"},
	&ruleKey:          {"secret"},
	&ruleLogs:         {"loggroup"},
}

// vague are last words of types that mean anything in a setting: SERVICE_NAME is no ECS service.
var vague = map[string]bool{"service": true, "application": true, "rule": true, "key": true, "alias": true, "api": true, "instance": true}

// plainKey is a key in the letters and digits of its lower case: TABLE_NAME, tableName and --table-name
// are one.
func plainKey(key string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return -1
	}, key)
}

// saysType says whether one of the keys under which a string stands speaks of a resource type: TABLE or
// TableName of AWS::DynamoDB::Table.
func saysType(keys []string, typ string) bool {
	own := plainKey(typ[strings.LastIndexByte(typ, ':')+1:])
	words := typeWords[traitsOf(typ).rule]
	return slices.ContainsFunc(keys, func(key string) bool {
		key = plainKey(key)
		return !vague[own] && strings.Contains(key, own) ||
			slices.ContainsFunc(words, func(w string) bool { return strings.Contains(key, w) })
	})
}

// keysOf are the keys that say what the string at path is: the last two of the path, and for
// {Name: …, Value: …} the name beside it. The next call writes over them.
func (b *builder) keysOf(from int32, path []string) []string {
	keys := b.keys[:0]
	for i := len(path) - 1; i >= 0 && len(keys) < 2; i-- {
		if strings.Trim(path[i], "0123456789") != "" { // no index into a list
			keys = append(keys, path[i])
		}
	}
	n := &b.nodes[from]
	if n.kind == parameterNode {
		return append(keys, n.id)
	}
	if len(path) == 0 || path[len(path)-1] != "Value" || n.res == nil {
		return keys
	}
	at := n.res.Properties
	for _, key := range path[:len(path)-1] {
		if i, err := strconv.Atoi(key); err == nil && at.Kind() == template.List && i < at.Len() {
			at = at.At(i)
		} else {
			at, _ = at.Get(key)
		}
	}
	if name := at.GetString("Name"); name != "" {
		keys = append([]string{name}, keys...)
	}
	return keys
}

// word is one word of a script or document, and the key that it is the value of, or "".
type word struct{ text, key string }

const wordEnds = " \t\r\n\"'`=,;(){}[]<>|&$"

// wordsOf splits a script or document into words. Lines that are comments say nothing of what runs.
func wordsOf(s string) []word {
	var out []word
	for line := range strings.SplitSeq(s, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		before, joined := "", false
		for line != "" {
			end := strings.IndexAny(line, wordEnds)
			if end < 0 {
				end = len(line)
			}
			if end == 0 {
				joined = joined || line[0] == '='
				line = line[1:]
				continue
			}
			text := line[:end]
			line = line[end:]
			if text == ":" {
				joined = true
				continue
			}
			w := word{text: text}
			if joined || strings.HasSuffix(before, ":") || strings.HasPrefix(before, "--") {
				w.key = before
			}
			out = append(out, w)
			before, joined = text, false
		}
	}
	return out
}

// maybe is a string that equals a physical name, where nothing says that it means it.
type maybe struct {
	stack    int
	from, to int32
	at, text string
}

// judgeMaybes makes a review item of each string that would, if it meant what it equals, lead a shard to
// what is not its own.
func (b *builder) judgeMaybes() {
	for _, m := range b.maybes {
		own, other := b.nodes[m.from].shard, b.nodes[m.to].shard
		if own < 0 || own == other || b.expected(m.to) != "" {
			continue
		}
		b.review(reviewKey{&ruleMaybe, b.stacks[m.stack].File, b.nodes[m.from].id,
			m.at + " has " + quote(m.text) + ", which is also the name of " + b.describe(m.to)})
	}
}

// namingKey is a plain key whose value names something that keeps data or passes it on.
var namingKey = regexp.MustCompile(`(table|cluster|bucket|queue|stream|topic|cache|broker)(?:name|id|arn|url|host|endpoint|identifier)?s?$`)

// nameLike is a literal that may name something: no number, no switch.
var nameLike = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./:-]{2,127}$`)

var switches = map[string]bool{"true": true, "false": true, "enabled": true, "disabled": true, "none": true, "default": true, "auto": true}

// literal is a string under a key that says what kind of thing it names.
type literal struct{ kind, text string }

// mention is where a shard has a literal.
type mention struct {
	stack int
	from  int32
	at    string
}

// mentions notes a literal that names a table, a queue and so on by a name that no template has.
func (b *builder) mentions(i int, from int32, path, keys []string, s string) {
	shard := b.nodes[from].shard
	if shard < 0 || len(keys) == 0 || switches[strings.ToLower(s)] || !nameLike.MatchString(s) || traitsOf(b.nodes[from].typ).observer || bootstrapBucket.MatchString(s) {
		return
	}
	m := namingKey.FindStringSubmatch(plainKey(keys[0]))
	if m == nil {
		return
	}
	l := literal{m[1], s}
	if b.literals[l] == nil {
		b.literals[l] = map[int32]mention{}
	}
	if _, ok := b.literals[l][shard]; !ok {
		b.literals[l][shard] = mention{i, from, strings.Join(path, ".")}
	}
}

// judgeLiterals makes a review item of each name that several shards have under such a key.
func (b *builder) judgeLiterals() {
	for l, in := range b.literals {
		if len(in) < 2 {
			continue
		}
		first := mention{from: -1}
		for _, m := range in {
			if first.from < 0 || cmp.Less(m.from, first.from) {
				first = m
			}
		}
		b.review(reviewKey{&ruleMaybe, b.stacks[first.stack].File, b.nodes[first.from].id,
			fmt.Sprintf("%d shards name %s at keys like %s: if that is one %s, outside of what was read, they share it", len(in), quote(l.text), first.at, l.kind)})
	}
}
