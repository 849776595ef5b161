package fleet

import "strings"

// nearest returns the candidate that got was probably meant to be, or "" when none is near: at most
// a third of its letters, and two in any case, may differ. With fewer than four letters on either side that
// would be any word: these are near nothing.
func nearest(got string, candidates []string) string {
	const least = 4
	if len(got) < least {
		return ""
	}
	best, bestDistance := "", 0
	for _, c := range candidates {
		most := max(2, len(c)/3)
		if len(c) < least || len(got) > len(c)+most {
			continue
		}
		d := distance(strings.ToLower(got), strings.ToLower(c))
		if d <= most && d < len(c) && (best == "" || d < bestDistance) {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with their neighbour that
// turns a into b (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
