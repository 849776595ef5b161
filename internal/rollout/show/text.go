package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxText is how many bytes of one text from outside are shown.
const maxText = 600

// Clean is a text from outside on one line: what does not print is escaped as Go has it, and what is long is cut.
func Clean(text string) string { return clean(text) }

// clean is a text from outside on one line: what does not print is escaped as Go has it, so that it moves no cursor.
func clean(text string) string { return cleanTo(text, maxText) }

func cleanTo(text string, most int) string {
	cut := len(text) > most
	if cut {
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text = text[:most]
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case unicode.IsPrint(r) && !unicode.IsMark(r) && (r != utf8.RuneError || n > 1):
			b.WriteString(text[:n])
		default:
			q := strconv.QuoteToASCII(text[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		text = text[n:]
	}
	if cut {
		b.WriteString("...")
	}
	return b.String()
}

// columns is how many columns of a terminal a clean text takes: wide characters take two.
func columns(text string) int {
	n := 0
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case r < 0x1100:
		return 1
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Yi), r >= 0x2E80 && r <= 0x303E,
		r >= 0xFE30 && r <= 0xFE6F, r >= 0xFF00 && r <= 0xFF60, r >= 0xFFE0 && r <= 0xFFE6, r >= 0x1F000:
		return 2
	}
	return 1
}

// cut is the text in at most width columns, with a tilde where something is left out.
func cut(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	at := 0
	for i, r := range text {
		if at += runeColumns(r); at > width-1 {
			return text[:i] + "~"
		}
	}
	return text
}

// wrap breaks a clean text into lines of at most width columns, of which the first begins after lead and the others
// are indented as far. There are at most most lines.
func wrap(lead, text string, width, most int) []string {
	indent := strings.Repeat(" ", columns(lead))
	if columns(lead) > width/2 {
		indent = "  "
	}
	var lines []string
	line, empty := lead, true
	for _, word := range strings.Fields(text) {
		for {
			space := ""
			if !empty {
				space = " "
			}
			if columns(line)+len(space)+columns(word) <= width {
				line, empty = line+space+word, false
				break
			}
			if empty { // a word that is longer than a line
				room := max(1, width-columns(line))
				head := firstColumns(word, room)
				line, word, empty = line+head, word[len(head):], false
			}
			if len(lines)+1 >= most {
				return append(lines, cut(line+" "+word, width))
			}
			lines = append(lines, line)
			line, empty = indent, true
			if word == "" {
				break
			}
		}
	}
	if !empty || len(lines) == 0 {
		lines = append(lines, cut(line, width))
	}
	return lines
}

// firstColumns is the beginning of a word in at most width columns, and at least one character.
func firstColumns(word string, width int) string {
	at := 0
	for i, r := range word {
		if at += runeColumns(r); at > width && i > 0 {
			return word[:i]
		}
	}
	return word
}

// length is a duration for people: two units at most.
func length(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return units(int(d.Minutes()), "m", int(d.Seconds())%60, "s")
	case d < 48*time.Hour:
		return units(int(d.Hours()), "h", int(d.Minutes())%60, "m")
	}
	return units(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
}

func units(a int, unitA string, b int, unitB string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, unitA)
	}
	return fmt.Sprintf("%d%s%d%s", a, unitA, b, unitB)
}

// Digest is the beginning of a digest, by which people tell it from others.
func Digest(d string) string {
	const shown = len("sha256:") + 12
	return firstColumns(clean(d), shown)
}

// alarms names alarms, and says how many more there are than it names.
func alarms(names []string) string {
	const most = 4
	var out []string
	for _, n := range names[:min(len(names), most)] {
		out = append(out, clean(n))
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(out, ", "), len(names)-most)
	}
	return strings.Join(out, ", ")
}
