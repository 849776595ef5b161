//go:build race

package routersim

const underRace = true
