package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"cellwall.dev/cellwall/internal/rollout/show"
)

// terminalOf is how large the terminal is to which w writes, and how it is drawn on; false when it writes to none.
func terminalOf(w io.Writer) (show.Look, bool) {
	if o, ok := w.(*output); ok {
		w = o.to
	}
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return show.Look{}, false
	}
	look := show.Look{Width: 80, Height: 24, Colour: os.Getenv("NO_COLOR") == "", UTF8: utf8Locale(os.Getenv)}
	if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
		look.Width, look.Height = width, height
	}
	return look, true
}

// screen draws pictures one over the other, where the cursor is. It scrolls nothing that stood above.
type screen struct {
	out   io.Writer
	look  func() show.Look // as large as the terminal is now
	drawn []int            // columns of the lines of the last picture
	last  string
	err   error
}

// draw draws a picture over the last one, unless it is the same.
func (s *screen) draw(picture func(show.Look) []string) {
	look := s.look()
	look.Width = max(1, look.Width-1) // a full line wraps in some terminals, and not in others
	look.Height = max(1, look.Height-1)
	lines := picture(look)
	text := strings.Join(lines, "\n")
	if text == s.last {
		return
	}
	up := 0
	for _, columns := range s.drawn { // lines that were wider than the terminal is now have been broken
		up += max(1, (columns+look.Width)/(look.Width+1))
	}
	up = min(up, look.Height)
	var b strings.Builder
	if up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	b.WriteString("\r\x1b[J")
	s.drawn = s.drawn[:0]
	for _, line := range lines {
		b.WriteString(line)
		b.WriteString("\n")
		s.drawn = append(s.drawn, plainColumns(line))
	}
	if _, err := io.WriteString(s.out, b.String()); err != nil && s.err == nil {
		s.err = err
	}
	s.last = text
}

// plainColumns is at least how many columns a line takes, without the colours in it.
func plainColumns(line string) int {
	n := 0
	for {
		before, after, found := strings.Cut(line, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !found {
			return n
		}
		_, line, _ = strings.Cut(after, "m")
	}
}
