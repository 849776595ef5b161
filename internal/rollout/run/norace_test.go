//go:build !race

package run_test

const underRace = false
