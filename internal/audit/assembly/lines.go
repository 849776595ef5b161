package assembly

import (
	"bytes"
	"encoding/json"
	"sort"

	"go.yaml.in/yaml/v3"
)

// Lines are the lines, from 1, on which the text of a template defines its resources, by logical id. A
// text that is no template has none: whoever asks has read it before, and names the file alone then.
func Lines(data []byte) (at map[string]int) {
	defer func() {
		if recover() != nil { // the parser reports some faults of its input by a panic
			at = nil
		}
	}()
	if head := bytes.TrimLeft(data, " \t\r\n\xef\xbb\xbf"); len(head) > 0 && head[0] == '{' {
		return jsonLines(data)
	}
	if len(data) > maxYAML {
		return nil
	}
	return yamlLines(data)
}

func jsonLines(data []byte) map[string]int {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var breaks []int
	for i, b := range data {
		if b == '\n' {
			breaks = append(breaks, i)
		}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	// enter goes into an object, and each calls f with every key; f reads the value.
	each := func(f func(key string) error) error {
		if t, err := dec.Token(); err != nil || t != json.Delim('{') {
			return err
		}
		for dec.More() {
			t, err := dec.Token()
			if err != nil {
				return err
			}
			key, _ := t.(string)
			if err := f(key); err != nil {
				return err
			}
		}
		_, err := dec.Token()
		return err
	}
	skip := func() error { return dec.Decode(new(json.RawMessage)) }
	at := map[string]int{}
	_ = each(func(key string) error { // what cannot be read has no line
		if key != "Resources" {
			return skip()
		}
		return each(func(id string) error {
			at[id] = 1 + sort.SearchInts(breaks, int(dec.InputOffset())-1)
			return skip()
		})
	})
	return at
}

func yamlLines(data []byte) map[string]int {
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	at := map[string]int{}
	for _, top := range pairs(doc.Content[0]) {
		if top[0].Value != "Resources" {
			continue
		}
		for _, r := range pairs(top[1]) {
			at[r[0].Value] = r[0].Line
		}
	}
	return at
}

// pairs are the keys and values of a mapping.
func pairs(n *yaml.Node) (out [][2]*yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, [2]*yaml.Node{n.Content[i], n.Content[i+1]})
	}
	return out
}
