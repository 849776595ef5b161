package awseventtest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// member is one of an object's members, which keep their order.
type member struct {
	name  string
	value any
}

type object []member

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(m.name))
		b.WriteByte(':')
		b.Write(encode(m.value))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encode writes a value, of which all that this package makes can be written.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("event: %v", err))
	}
	return text
}

// lists groups values by key, in the order in which each key came first.
func lists(in []pair) object {
	at := map[string]int{}
	out := object{}
	for _, p := range in {
		i, known := at[p.key]
		if !known {
			i = len(out)
			at[p.key] = i
			out = append(out, member{p.key, []string(nil)})
		}
		out[i].value = append(out[i].value.([]string), p.value)
	}
	return out
}

// last keeps the last value of each key.
func last(in []pair) object {
	out := lists(in)
	for i, m := range out {
		values := m.value.([]string)
		out[i].value = values[len(values)-1]
	}
	return out
}

// orNull is what API Gateway writes for no parameters at all.
func (o object) orNull() any {
	if len(o) == 0 {
		return nil
	}
	return o
}
