//go:build !race

package footnote

const raced = false
