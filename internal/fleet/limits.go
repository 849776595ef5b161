package fleet

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

const (
	// maxDepth bounds the nesting of a fleet file. The deepest value of a valid one lies at 5; the
	// parser recurses, and a Go stack that overflows cannot be recovered from.
	maxDepth = 64
	// maxKeys bounds the keys of one mapping: the parser takes quadratic time in them (go-yaml v1.19.2
	// needs a minute for 200,000).
	maxKeys = 1000
)

// tooMuch looks for what would cost the parser its stack or its time, and returns the token where that
// begins, or nil, with what it is and what to do.
func tooMuch(tokens token.Tokens) (at *token.Token, what, fix string) {
	var n nesting
	for i, tk := range tokens {
		n.add(tk, tokens[max(0, i-1)])
		switch {
		case n.depth() > maxDepth:
			return tk, fmt.Sprintf("nesting deeper than %d", maxDepth), "close the brackets before, or remove the indentation"
		case n.keys > maxKeys:
			return tk, fmt.Sprintf("a mapping of more than %d keys", maxKeys), "split it"
		}
	}
	return nil, "", ""
}

// nesting follows the tokens of a file. It over-counts the depth: a line's indicators all count until a
// later token stands further left.
type nesting struct {
	flow   []int   // keys so far of each open bracket
	open   []int   // columns of the block indicators that enclose the token
	blocks []block // block mappings that enclose the token
	keys   int     // so far, of the mapping whose key came last
}

// block is a block mapping: the column of its keys, and how many there were.
type block struct{ column, keys int }

func (n *nesting) depth() int { return len(n.flow) + len(n.open) }

// add takes the next token; before is the one that it follows.
func (n *nesting) add(tk, before *token.Token) {
	switch tk.Type {
	case token.MappingStartType, token.SequenceStartType:
		n.flow = append(n.flow, 0)
		return
	case token.MappingEndType, token.SequenceEndType:
		n.flow = n.flow[:max(0, len(n.flow)-1)]
		return
	}
	if top := len(n.flow) - 1; top >= 0 {
		if tk.Type == token.MappingValueType {
			n.flow[top]++
			n.keys = n.flow[top]
		}
		return
	}
	column := tk.Position.Column
	for len(n.open) > 0 && column <= n.open[len(n.open)-1] {
		n.open = n.open[:len(n.open)-1]
	}
	switch tk.Type {
	case token.SequenceEntryType:
		n.leave(column)
		n.open = append(n.open, column)
	case token.MappingValueType:
		n.key(before.Position.Column)
		n.open = append(n.open, column)
	case token.MappingKeyType, token.AnchorType, token.TagType:
		n.open = append(n.open, column)
	}
}

// leave closes the block mappings that lie to the right of the column.
func (n *nesting) leave(column int) {
	for len(n.blocks) > 0 && n.blocks[len(n.blocks)-1].column > column {
		n.blocks = n.blocks[:len(n.blocks)-1]
	}
}

// key counts a key of the block mapping at the column.
func (n *nesting) key(column int) {
	n.leave(column)
	if top := len(n.blocks) - 1; top < 0 || n.blocks[top].column < column {
		n.blocks = append(n.blocks, block{column: column})
	}
	top := len(n.blocks) - 1
	n.blocks[top].keys++
	n.keys = n.blocks[top].keys
}
