package routing

import (
	"net/url"
	"slices"
	"strings"
)

// Readings are the ways in which services read a percent-encoded path: decoded segment by segment, where an
// encoded slash stays part of its segment as %2F, or as a whole; decoded a second time; with backslashes for
// slashes; without what follows a semicolon in a segment, as servlet containers do; and each of those as it
// is, with doubled slashes made one, and with dot segments resolved, too. ok is false for what is no path.
func Readings(rawPath string) (readings []string, ok bool) {
	decoded, err := url.PathUnescape(rawPath)
	if err != nil || !valid(rawPath) || strings.Contains(decoded, "\x00") {
		return nil, false
	}
	if plain(rawPath) {
		return []string{rawPath}, true
	}
	add := func(r string) {
		for _, r := range [...]string{r, slashes(r), merged(r), merged(slashes(r)), tidy(r), tidy(slashes(r))} {
			if !slices.Contains(readings, r) {
				readings = append(readings, r)
			}
		}
	}
	for _, raw := range [...]string{rawPath, withoutParameters(rawPath)} {
		decoded, err := url.PathUnescape(raw)
		if err != nil {
			return nil, false
		}
		add(unescapeSegments(raw))
		add(decoded)
		add(withoutParameters(decoded))
		if twice, err := url.PathUnescape(decoded); err == nil {
			add(twice)
			add(withoutParameters(twice))
		}
	}
	return readings, true
}

// merged makes doubled slashes one.
func merged(p string) string {
	for strings.Contains(p, "//") {
		p = strings.ReplaceAll(p, "//", "/")
	}
	return p
}

// withoutParameters cuts each segment at its first semicolon.
func withoutParameters(p string) string {
	if !strings.Contains(p, ";") {
		return p
	}
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return strings.Join(segments, "/")
}
