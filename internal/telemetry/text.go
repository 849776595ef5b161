package telemetry

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/routing"
)

// How much of a text stands in a line, in bytes. A client may make up a method, and a slice's error be as long as its
// answers; CloudWatch Logs breaks an event of more than 256 KB in pieces, none of which is JSON or a metric.
const (
	maxText   = 2 << 10
	maxMethod = 32
)

// Text is an error of something that concerns a tenant as a line has it: cut, and with HashTenants with the tenant's
// hash for its id; "" for none.
func (r *Requests) Text(err error, tenant string) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if r.c.HashTenants && tenant != "" {
		text = hide(text, tenant)
	}
	return cut(text, maxText)
}

// hide puts the tenant's hash in the place of its id: as it is, as Go quotes it, and percent-encoded.
func hide(text, tenant string) string {
	quoted := strconv.Quote(tenant)
	for _, name := range [...]string{tenant, quoted[1 : len(quoted)-1], routing.EncodeTenant(tenant)} {
		text = replaceWord(text, name, Hash(tenant))
	}
	return text
}

// replaceWord replaces a text where no letter or digit stands beside it.
func replaceWord(text, old, new string) string {
	var b strings.Builder
	from := 0
	for at := 0; ; {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		begin, end := at+i, at+i+len(old)
		before, _ := utf8.DecodeLastRuneInString(text[:begin])
		after, _ := utf8.DecodeRuneInString(text[end:])
		if inWord(before) || inWord(after) {
			_, size := utf8.DecodeRuneInString(text[begin:])
			at = begin + size
			continue
		}
		b.WriteString(text[from:begin])
		b.WriteString(new)
		from, at = end, end
	}
	if from == 0 {
		return text
	}
	b.WriteString(text[from:])
	return b.String()
}

func inWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// cut leaves the beginning of what is too long, and says so.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
