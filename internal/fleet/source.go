package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxFile bounds a fleet file, in bytes. A hundred cells with a hundred listed shards each take
	// less than half of it.
	maxFile = 1 << 20
)

// byteOrderMark may open a UTF-8 file; some editors write it.
var byteOrderMark = []byte("\xef\xbb\xbf")

// kind is the form of a node.
type kind int

const (
	null kind = iota
	scalar
	mapping
	sequence
	refused // reported already
)

// pos is a place in the file: line and column (in characters), both from 1.
type pos struct{ line, col int }

// node is a YAML value reduced to what a fleet file may use: no anchors, tags or merge keys.
type node struct {
	kind   kind
	at     pos
	text   string // of a scalar
	quoted bool   // or a block scalar: surely a string
	pairs  []pair
	items  []*node
}

type pair struct {
	key    string
	quoted bool
	at     pos
	value  *node
}

// reader turns the bytes of a file into a tree and collects what a fleet file may not use.
type reader struct {
	file   string
	faults Faults
}

func (r *reader) fault(at pos, what, why, fix string) {
	r.faults = append(r.faults, Fault{File: r.file, Line: at.line, Col: at.col, What: what, Why: why, Fix: fix})
}

// read returns the tree of data, or nil when it has none; r.faults says why.
func (r *reader) read(data []byte) (root *node) {
	if len(data) > maxFile {
		r.fault(pos{1, 1}, fmt.Sprintf("file of more than %d bytes", maxFile),
			"no fleet file is as large", "check that this is the fleet's file, and give shards as counts")
		return nil
	}
	data = bytes.TrimPrefix(data, byteOrderMark)
	if at, c, bad := badCharacter(data); bad {
		r.fault(at, fmt.Sprintf("character %s", c), "a fleet file is printable UTF-8 text", "save the file as UTF-8 and remove the character")
		return nil
	}
	// The parser has a history of panics on odd input. None is known for this version; a fault here
	// is better than a stack trace in the middle of a synthesis.
	defer func() {
		if p := recover(); p != nil {
			r.fault(pos{1, 1}, fmt.Sprintf("YAML that the parser gave up on (%v)", p), "the file cannot be read", "simplify the file to plain mappings and lists")
			root = nil
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if tk, what, fix := tooMuch(tokens); tk != nil {
		r.fault(position(tk), what, "no fleet file is written like that", fix)
		return nil
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	var body ast.Node
	for _, doc := range parsed.Docs {
		switch {
		case doc.Body == nil:
		case doc.Body.Type() == ast.DirectiveType:
			r.fault(position(doc.Body.GetToken()), fmt.Sprintf("directive %q", strings.TrimSpace(doc.Body.String())),
				"directives are not read", "remove the line")
		case body != nil:
			r.fault(position(doc.Start), "a second document", "one file describes one fleet", "keep one document, without a further ---")
			return nil // what the first lacks may stand in the second
		default:
			body = doc.Body
		}
	}
	if body == nil {
		if len(r.faults) == 0 {
			r.fault(pos{1, 1}, "empty file", "a fleet needs a service, a directory, auth, a shard and cells", "start from the sample in docs/fleet.md")
		}
		return nil
	}
	return r.node(body)
}

// syntax reports what the YAML parser refused.
func (r *reader) syntax(err error) {
	// Not the error's own text: it prints the source around the place, in quadratic time.
	at, msg := pos{1, 1}, "unreadable text"
	if e, ok := errors.AsType[yaml.Error](err); ok {
		at, msg = position(e.GetToken()), e.GetMessage()
	}
	if strings.Contains(msg, `'	'`) {
		r.fault(at, "a tab", "YAML indents with spaces only", "replace the tab by spaces")
		return
	}
	r.fault(at, msg, "the text is not YAML", "check the indentation, brackets and quotes here and in the line before")
}

// badCharacter finds the first byte that is not UTF-8 or character that YAML forbids.
func badCharacter(data []byte) (at pos, name string, bad bool) {
	line, col := 1, 1
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && size <= 1:
			return pos{line, col}, fmt.Sprintf("0x%02x, which is not UTF-8", data[i]), true
		case c < ' ' && c != '\t' && c != '\n' && c != '\r', c == 0x7f, c >= 0x80 && c < 0xa0 && c != 0x85, c == 0xfeff:
			return pos{line, col}, fmt.Sprintf("%U", c), true
		}
		i, col = i+size, col+1
		if c == '\n' {
			line, col = line+1, 1
		}
	}
	return pos{}, "", false
}

func position(tk *token.Token) pos {
	if tk == nil || tk.Position == nil {
		return pos{1, 1}
	}
	return pos{max(1, tk.Position.Line), max(1, tk.Position.Column)}
}

// node reduces one value. What a fleet file may not use becomes a fault and a refused node.
func (r *reader) node(n ast.Node) *node {
	out := &node{at: position(n.GetToken())}
	switch n := n.(type) {
	case *ast.MappingNode:
		out.kind = mapping
		for _, v := range n.Values {
			r.pair(out, v)
		}
		if !n.IsFlowStyle && len(out.pairs) > 0 {
			out.at = out.pairs[0].at
		}
	case *ast.MappingValueNode:
		out.kind = mapping
		r.pair(out, n)
		if len(out.pairs) > 0 {
			out.at = out.pairs[0].at
		}
	case *ast.SequenceNode:
		out.kind = sequence
		for _, v := range n.Values {
			out.items = append(out.items, r.node(v))
		}
	case *ast.NullNode:
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
		out.quoted = quotes(n.Token)
		if !out.quoted && (strings.Contains(n.Value, ": ") || strings.HasSuffix(n.Value, ":")) {
			r.fault(out.at, fmt.Sprintf("text %s", quote(n.Value)), "a colon that ends, or has a space behind it, is no part of plain text", "put the text in quotes")
			out.kind = refused
		}
	case *ast.LiteralNode:
		out.kind, out.text, out.quoted = scalar, n.Value.Value, true
	case *ast.AnchorNode:
		r.fault(out.at, fmt.Sprintf("anchor %q", "&"+n.Name.String()), "a fleet file has no anchors and aliases", "write the value itself")
		return r.node(n.Value)
	case *ast.AliasNode:
		r.fault(out.at, fmt.Sprintf("alias %q", "*"+n.Value.String()), "a fleet file has no anchors and aliases", "repeat the value itself")
		out.kind = refused
	case *ast.TagNode:
		r.fault(out.at, fmt.Sprintf("tag %q", n.Start.Value), "a fleet file has no YAML tags", "remove the tag")
		out.kind = refused
	default:
		out.kind, out.text = scalar, n.GetToken().Value
	}
	return out
}

func (r *reader) pair(m *node, v *ast.MappingValueNode) {
	key := v.Key.GetToken()
	if k, ok := v.Key.(*ast.MappingKeyNode); ok && k.Value != nil {
		key = k.Value.GetToken()
	}
	at := position(key)
	switch {
	case v.Key.IsMergeKey():
		r.fault(at, `merge key "<<"`, "a fleet file has no anchors and aliases", "repeat the keys themselves")
		return
	case key.Type == token.AnchorType || key.Type == token.AliasType || key.Type == token.TagType,
		key.Type == token.MappingStartType || key.Type == token.SequenceStartType:
		r.fault(at, fmt.Sprintf("key %q", v.Key.String()), "a key is plain text", "write the key itself")
		return
	}
	if joined(key, v.Start) {
		r.fault(at, fmt.Sprintf("no space behind the colon of %s", quote(key.Value)), "YAML reads the colon as part of the key then",
			"write a space there, or put a key that has a colon in quotes")
		m.pairs = append(m.pairs, pair{key: key.Value, at: at, value: &node{kind: refused, at: at}})
		return
	}
	value := r.node(v.Value)
	if value.kind == null {
		value.at = at // the parser's place is behind the colon, where nothing is
	}
	m.pairs = append(m.pairs, pair{
		key:    key.Value,
		quoted: quotes(key),
		at:     at,
		value:  value,
	})
}

func quotes(tk *token.Token) bool {
	return tk.Type == token.SingleQuoteType || tk.Type == token.DoubleQuoteType
}

// joined says whether text follows at once on the colon of a plain key in braces. To YAML that colon is a part of the
// key; the parser ends the key there, so that it would read another fleet than other tools do.
func joined(key, colon *token.Token) bool {
	if quotes(key) || colon == nil || colon.Type != token.MappingValueType || colon.Next == nil {
		return false
	}
	switch colon.Next.Type {
	case token.MappingStartType, token.MappingEndType, token.SequenceStartType, token.SequenceEndType, token.CollectEntryType:
		return false // what cannot be in a plain text
	}
	at, next := position(colon), position(colon.Next)
	return next.line == at.line && next.col == at.col+1
}
