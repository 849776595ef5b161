// Package boltpagestest tells tests how much of a file a process has in its memory. It is there on Linux alone.
package boltpagestest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Resident is how much of the mapped file this process has in its memory, in bytes.
func Resident(t testing.TB, path string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	_, mapping, found := strings.Cut(string(text), path)
	if !found {
		t.Fatalf("%s is not mapped", path)
	}
	var kib int
	_, mapping, _ = strings.Cut(mapping, "\nRss:")
	if _, err := fmt.Sscanf(mapping, "%d kB", &kib); err != nil {
		t.Fatalf("the memory of %s: %v", path, err)
	}
	return kib << 10
}
