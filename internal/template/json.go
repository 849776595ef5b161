package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// SyntaxError is a fault in a template's text.
type SyntaxError struct {
	Line, Column int // from 1; the column counts bytes
	Err          error
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%d:%d: %v", e.Line, e.Column, e.Err) }
func (e *SyntaxError) Unwrap() error { return e.Err }

// DecodeJSON decodes one JSON value. Every error is a *SyntaxError.
func DecodeJSON(data []byte) (Node, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // the byte-order mark that some editors write
	d := jsonDecoder{data: data, dec: json.NewDecoder(bytes.NewReader(data)), seen: map[string]string{}}
	d.dec.UseNumber()
	tok, err := d.dec.Token()
	if err != nil {
		return Node{}, d.fault(err)
	}
	n, err := d.value(tok, 0)
	if err != nil {
		return Node{}, err
	}
	if _, err := d.dec.Token(); err == nil {
		return Node{}, d.fault(errors.New("more text after the end of the value"))
	} else if err != io.EOF {
		return Node{}, d.fault(err)
	}
	return n, nil
}

type jsonDecoder struct {
	data []byte
	dec  *json.Decoder
	seen map[string]string
}

// What once keeps: the keys, types and the like of which a template is made, and not its scripts.
const (
	onceLength = 40
	onceCount  = 4096
)

// once is s in the memory of an equal string that came before: templates say few words over and over.
func (d *jsonDecoder) once(s string) string {
	if len(s) > onceLength {
		return s
	}
	if first, ok := d.seen[s]; ok {
		return first
	}
	if len(d.seen) < onceCount {
		d.seen[s] = s
	}
	return s
}

func (d *jsonDecoder) fault(err error) error {
	at := d.dec.InputOffset()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		// the offset lies behind the offending byte
		at = max(at, syntax.Offset-1)
		err = fmt.Errorf("not JSON: %w", err)
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		at, err = int64(len(d.data)), errors.New("the text ends in the middle of a value")
	}
	at = min(at, int64(len(d.data)))
	before := d.data[:at]
	return &SyntaxError{
		Line:   bytes.Count(before, []byte{'\n'}) + 1,
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Err:    err,
	}
}

func (d *jsonDecoder) value(tok json.Token, depth int) (Node, error) {
	if depth > MaxDepth {
		return Node{}, d.fault(ErrDepth)
	}
	switch t := tok.(type) {
	case nil:
		return Node{}, nil
	case bool:
		return NewBool(t), nil
	case json.Number:
		return NewNumber(t.String()), nil
	case string:
		return NewString(d.once(t)), nil
	case json.Delim:
		if t == '[' {
			return d.list(depth)
		}
		return d.object(depth)
	}
	return Node{}, d.fault(fmt.Errorf("unexpected token %v", tok))
}

func (d *jsonDecoder) list(depth int) (Node, error) {
	var items []Node
	for {
		tok, err := d.dec.Token()
		if err != nil {
			return Node{}, d.fault(err)
		}
		if tok == json.Delim(']') {
			return NewList(items), nil
		}
		n, err := d.value(tok, depth+1)
		if err != nil {
			return Node{}, err
		}
		items = append(items, n)
	}
}

func (d *jsonDecoder) object(depth int) (Node, error) {
	var b MapBuilder
	for {
		tok, err := d.dec.Token()
		if err != nil {
			return Node{}, d.fault(err)
		}
		key, ok := tok.(string)
		if !ok {
			return b.Node(), nil // the decoder lets only a closing brace stand here
		}
		if tok, err = d.dec.Token(); err != nil {
			return Node{}, d.fault(err)
		}
		n, err := d.value(tok, depth+1)
		if err != nil {
			return Node{}, err
		}
		if err := b.Add(d.once(key), n); err != nil {
			return Node{}, d.fault(fmt.Errorf("%q: %w", key, err))
		}
	}
}

// UnmarshalJSON reads a node that stands inside of another value.
func (n *Node) UnmarshalJSON(data []byte) (err error) {
	*n, err = DecodeJSON(data)
	return err
}

// MarshalJSON writes the node as JSON with its keys in order.
func (n Node) MarshalJSON() ([]byte, error) { return n.appendJSON(nil) }

func (n Node) appendJSON(b []byte) ([]byte, error) {
	quoted := func(s string) error {
		q, err := json.Marshal(s)
		b = append(b, q...)
		return err
	}
	switch n.kind {
	case Null:
		return append(b, "null"...), nil
	case Number:
		if !json.Valid([]byte(n.text)) { // YAML has numbers that JSON has not: 0123, 0x1F, .inf
			err := quoted(n.text)
			return b, err
		}
		return append(b, n.text...), nil
	case Bool:
		return append(b, n.text...), nil
	case String:
		err := quoted(n.text)
		return b, err
	}
	open, end := byte('['), byte(']')
	if n.kind == Map {
		open, end = '{', '}'
	}
	b = append(b, open)
	for i, item := range n.items {
		if i > 0 {
			b = append(b, ',')
		}
		if n.kind == Map {
			if err := quoted(n.keys[i]); err != nil {
				return nil, err
			}
			b = append(b, ':')
		}
		var err error
		if b, err = item.appendJSON(b); err != nil {
			return nil, err
		}
	}
	return append(b, end), nil
}
