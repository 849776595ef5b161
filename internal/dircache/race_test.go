//go:build race

package dircache

const raceEnabled = true
