//go:build race

package directory_test

const underRace = true
