//go:build !race

package directorytest

// UnderRace says that the race detector watches, under which all lasts several times as long.
const UnderRace = false
