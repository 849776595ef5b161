package fleet

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// text decodes a string. Plain scalars that other YAML readers take for something else are refused:
// 012345678901 is an account id to a person and 1,402,433,...  to many a tool.
func (d *decoder) text(path string, n *node, v reflect.Value, s described) bool {
	switch {
	case n.kind != scalar:
		return d.refuse(path, n, "text", "write one text value")
	case !n.quoted && s.shape == "account" && allDigits(n.text):
		return d.refuse(path, n, "text, since a number loses its leading zeros", fmt.Sprintf("put the account id in quotes: %q", n.text))
	case len(s.enum) > 0 && !slices.Contains(s.enum, n.text):
		fix := "write " + alternatives(s.enum)
		if near := nearest(n.text, s.enum); near != "" {
			fix = fmt.Sprintf("did you mean %s?", near)
		}
		return d.refuse(path, n, alternatives(s.enum), fix)
	case n.text == "":
		return d.notEmpty(path, &node{at: n.at})
	}
	if shape, shaped := shapes[s.shape]; shaped && !shape.pattern.MatchString(n.text) {
		return d.refuse(path, n, shape.want, shape.fix(n.text))
	}
	if !n.quoted && otherThanText(n.text) {
		return d.refuse(path, n, "text, and YAML reads this as another type", fmt.Sprintf("put it in quotes: %q", n.text))
	}
	v.SetString(n.text)
	return true
}

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// otherThanText tells whether a plain scalar is a number, a truth value or nothing to YAML 1.2.
func otherThanText(s string) bool {
	switch strings.ToLower(s) {
	case "true", "false", "null", "~", ".nan", ".inf", "-.inf", "+.inf":
		return true
	}
	if _, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 0, 64); err == nil {
		return true
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && strings.Trim(s, "+-.0123456789eE") == ""
}

func (d *decoder) integer(path string, n *node, v reflect.Value, s described) bool {
	digits := strings.TrimPrefix(n.text, "-")
	switch {
	case n.kind != scalar:
		return d.refuse(path, n, "a whole number", "write one number")
	case n.quoted:
		return d.refuse(path, n, "a number, and quotes make it text", "remove the quotes")
	case !allDigits(digits):
		return d.refuse(path, n, "a whole number", "write decimal digits only")
	case len(digits) > 1 && digits[0] == '0':
		return d.refuse(path, n, "a decimal number, and YAML reads a leading zero as octal", fmt.Sprintf("write %s", strings.TrimLeft(digits[:len(digits)-1], "0")+digits[len(digits)-1:]))
	}
	i, err := strconv.ParseInt(n.text, 10, 32)
	switch {
	case err != nil:
		return d.refuse(path, n, "within ±2,147,483,647", "write a smaller number")
	case s.min != nil && int(i) < *s.min:
		return d.refuse(path, n, bounds(s), fmt.Sprintf("write %d or more", *s.min))
	case s.max != nil && int(i) > *s.max:
		return d.refuse(path, n, bounds(s), fmt.Sprintf("write %d or less", *s.max))
	}
	v.SetInt(i)
	return true
}

// bounds says which numbers are allowed.
func bounds(s described) string {
	switch {
	case s.min != nil && s.max != nil:
		return fmt.Sprintf("%d to %d", *s.min, *s.max)
	case s.min != nil:
		return fmt.Sprintf("at least %d", *s.min)
	}
	return fmt.Sprintf("at most %d", *s.max)
}

// durationForm is what a fleet file may write of Go's durations: no sign and no bare zero.
var durationForm = regexp.MustCompile(`^(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))+$`)

func (d *decoder) duration(path string, n *node, v reflect.Value) bool {
	const fix = "write hours and minutes, such as 90m, 1h or 2h30m"
	if n.kind != scalar {
		return d.refuse(path, n, "a duration", fix)
	}
	t, err := time.ParseDuration(n.text)
	switch {
	case err != nil && strings.HasSuffix(n.text, "d"):
		return d.refuse(path, n, "a duration in hours, minutes and seconds", "write days as hours: 1d is 24h")
	case t < 0:
		return d.refuse(path, n, "a duration of at least 0s", fix)
	case err != nil || !durationForm.MatchString(n.text):
		return d.refuse(path, n, "a duration with its unit", fix)
	}
	v.SetInt(int64(t))
	return true
}
