//go:build !race

package dircache

const raceEnabled = false
