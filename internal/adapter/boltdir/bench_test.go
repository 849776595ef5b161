package boltdir

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

var (
	tenants = flag.Int("tenants", 20_000, "tenants in the directory that BenchmarkDirectory measures")
	ordered = flag.Bool("ordered", false, "import them in the order of their ids, which writes each page once, instead of scattered")
)

func tenantID(i int) string { return fmt.Sprintf("tenant-%07d-of-the-benchmark", i) }

// population is a CSV file of n tenants, made up as it is read.
func population(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		var b bytes.Buffer
		b.WriteString("tenant,cell,load,topology\n")
		for i := range n {
			id := i
			if !*ordered {
				id = int(uint64(i) * 7919 % uint64(n))
			}
			fmt.Fprintf(&b, "%s,eu-%d,1.5,1\n", tenantID(id), i%4+1)
			if b.Len() > 1<<16 || i == n-1 {
				if _, err := w.Write(b.Bytes()); err != nil {
					return
				}
				b.Reset()
			}
		}
		w.Close()
	}()
	return r
}

func prepareBench(b testing.TB, home directory.Home) *directory.Directory {
	d, err := directory.Open(b.Context(), home)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 4 {
		cell := fmt.Sprintf("eu-%d", i+1)
		if _, err := d.AddCell(b.Context(), directory.Cell{Name: cell}, changeOf("add "+cell)); err != nil {
			b.Fatal(err)
		}
		t := directory.Topology{Cell: cell, Version: 1, Scheme: placement.RendezvousV1, KBySize: map[string]int{"": 2}, KeyVersion: "1"}
		for s := range 16 {
			t.Shards = append(t.Shards, directory.Shard{ID: fmt.Sprintf("s%02d", s+1), Weight: 1, State: directory.InUse})
		}
		if _, err := d.Publish(b.Context(), t, changeOf("publish "+cell)); err != nil {
			b.Fatal(err)
		}
	}
	return d
}

// memory is what the Go runtime has had of the system, at most. What the system keeps of the mapped file
// in its cache comes beside it, and is given up under pressure.
func memory() string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return fmt.Sprintf("%d MB of memory", m.Sys>>20)
}

// BenchmarkDirectory measures a directory of -tenants. Importing them is done, timed and told once.
func BenchmarkDirectory(b *testing.B) {
	path := filepath.Join(b.TempDir(), "directory.db")
	home := open(b, path)
	d := prepareBench(b, home)
	begin := time.Now()
	lines := directory.ReadEntries(population(*tenants), directory.CSV)
	if err := directory.Import(b.Context(), lines, 0, changeOf("import"), d.Enrol, func(directory.Progress) {}); err != nil {
		b.Fatal(err)
	}
	took := time.Since(begin)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("# %d tenants imported in %v, %d bytes a tenant on disk, %s\n", *tenants, took.Round(time.Millisecond), info.Size()/int64(*tenants), memory())

	b.Run("Get", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := d.Get(b.Context(), tenantID(rand.IntN(*tenants))); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
	})
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("CompareAndSet/writers=%d", writers), func(b *testing.B) {
			var n atomic.Int64
			b.SetParallelism(writers) // times GOMAXPROCS, which -cpu=1 makes the number itself
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1)
					before, err := d.Get(b.Context(), tenantID(int(uint64(i)*104729%uint64(*tenants))))
					if err != nil {
						b.Error(err)
						return
					}
					after := before.Clone()
					after.Pins = []string{"s01"}
					if _, err := d.Replace(b.Context(), before, after, changeOf(fmt.Sprintf("%s-%d-%d", b.Name(), b.N, i))); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "changes/s")
		})
	}
	b.Run("ListPage1000", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.ListCell(b.Context(), "eu-1", tenantID(rand.IntN(*tenants)), 1000); err != nil {
				b.Error(err)
			}
		}
	})
	b.Run("Open", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			if err := home.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if home, err = Open(path); err != nil {
				b.Fatal(err)
			}
			if _, err := directory.Open(b.Context(), home); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Cleanup(func() { home.Close() })
}
