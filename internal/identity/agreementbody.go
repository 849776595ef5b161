package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// errSyntax is a body that is not JSON.
var errSyntax = errors.New("it is not JSON")

func (a Agreement) body(tenant string, header http.Header, body []byte) error {
	for _, value := range header.Values("Content-Encoding") {
		if coding := strings.TrimSpace(value); coding != "" && !strings.EqualFold(coding, "identity") {
			return fmt.Errorf("%w: the body is encoded, so that what it names is not seen: send it as it is", ErrDisagree)
		}
	}
	declared, foreign := declaredJSON(header)
	if declared && (foreign || !utf8.Valid(body)) {
		return fmt.Errorf("%w: the body's JSON is not in UTF-8", ErrDisagree)
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if first := bytes.TrimLeft(body, " \t\r\n"); !declared && (len(first) == 0 || first[0] != '{' && first[0] != '[') {
		return nil
	}
	switch err := a.values(tenant, body); {
	case errors.Is(err, ErrDisagree):
		return err
	case err != nil && declared:
		return fmt.Errorf("%w: the body's JSON cannot be read", ErrDisagree)
	}
	return nil
}

// declaredJSON says whether a request says that its body is JSON, in any of its Content-Types, and whether it
// says that this is in another charset than UTF-8.
func declaredJSON(header http.Header) (declared, foreign bool) {
	for _, value := range header.Values("Content-Type") {
		if !strings.Contains(strings.ToLower(value), "json") {
			continue
		}
		declared = true
		_, parameters, err := mime.ParseMediaType(value)
		charset := strings.ToLower(parameters["charset"])
		foreign = foreign || err != nil || charset != "" && charset != "utf-8" && charset != "utf8" && charset != "us-ascii"
	}
	return declared, foreign
}

// values checks all values of a body, of which there may be several, one a line for example.
func (a Agreement) values(tenant string, body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	for {
		token, err := dec.Token()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return errSyntax
		}
		switch token {
		case json.Delim('{'):
			err = a.members(tenant, dec)
		case json.Delim('['):
			err = a.elements(tenant, dec)
		}
		if err != nil {
			return err
		}
	}
}

// elements checks the objects of a list whose bracket was read.
func (a Agreement) elements(tenant string, dec *json.Decoder) error {
	for dec.More() {
		var element json.RawMessage
		if dec.Decode(&element) != nil {
			return errSyntax
		}
		if element[0] != '{' {
			continue
		}
		inner := json.NewDecoder(bytes.NewReader(element))
		if _, err := inner.Token(); err != nil {
			return errSyntax
		}
		if err := a.members(tenant, inner); err != nil {
			return err
		}
	}
	return closing(dec)
}

// members checks the members of an object whose brace was read.
func (a Agreement) members(tenant string, dec *json.Decoder) error {
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return errSyntax
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return errSyntax
		}
		name, _ := key.(string) // the decoder accepts nothing else here
		if !sameName(name, a.member) || string(value) == "null" {
			continue
		}
		var named string
		if json.Unmarshal(value, &named) != nil || named != tenant {
			return fmt.Errorf("%w: the body does", ErrDisagree)
		}
	}
	return closing(dec)
}

func closing(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return errSyntax
	}
	return nil
}

// sameName says whether some service takes two members' names for the same: Go's decoder does not look at
// case, and others map tenantId to tenant_id.
func sameName(a, b string) bool {
	for {
		a, b = strings.TrimLeft(a, "_-"), strings.TrimLeft(b, "_-")
		if a == "" || b == "" {
			return a == b
		}
		_, n := utf8.DecodeRuneInString(a)
		_, m := utf8.DecodeRuneInString(b)
		if !strings.EqualFold(a[:n], b[:m]) {
			return false
		}
		a, b = a[n:], b[m:]
	}
}
