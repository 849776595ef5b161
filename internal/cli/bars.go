package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

// barWidth is the characters of a whole bar.
const barWidth = 20

// bars draws shares: in blocks for a terminal that can show them, otherwise in plain ASCII. There are no colours.
type bars struct{ full, empty string }

func barsFor(w io.Writer) bars {
	if o, ok := w.(*output); ok {
		w = o.to
	}
	if file, ok := w.(*os.File); ok {
		info, err := file.Stat()
		if err == nil && info.Mode()&os.ModeCharDevice != 0 && utf8Locale(os.Getenv) {
			return bars{"█", "░"}
		}
	}
	return bars{"#", "."}
}

// utf8Locale tells whether the terminal's encoding is UTF-8, in the order in which POSIX looks.
func utf8Locale(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(env(name)); locale != "" {
			return strings.HasSuffix(locale, ".utf-8") || strings.HasSuffix(locale, ".utf8")
		}
	}
	return false
}

// barLeast is the least share that shows.
const barLeast = 0.005

// bar is a share of 0 to 1. What is not all leaves a place empty.
func (b bars) bar(share float64) string {
	n := int(math.Round(share * barWidth))
	if share >= barLeast {
		n = max(n, 1)
	}
	if share < 1 {
		n = min(n, barWidth-1)
	}
	n = min(max(n, 0), barWidth)
	return strings.Repeat(b.full, n) + strings.Repeat(b.empty, barWidth-n)
}

// percentage is a share in per cent, with the digits that a person reads.
func percentage(share float64) string {
	switch p := 100 * share; {
	case share > 0 && p < 0.01:
		return fmt.Sprintf("%.1e %%", p)
	case p >= 1000:
		return grouped(p) + " %"
	default:
		return fmt.Sprintf("%.2f %%", p)
	}
}

// grouped is a number of 0 or more, rounded to a whole one from 100 on, with commas between thousands.
func grouped(n float64) string {
	if n < 100 && n != math.Trunc(n) {
		return strconv.FormatFloat(n, 'g', 3, 64)
	}
	if n >= 1e15 {
		return fmt.Sprintf("%.3g", n)
	}
	digits := strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// several names things, and says how many more there are than it names.
func several(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
