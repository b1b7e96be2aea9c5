//go:build unix

package pebble_test

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	engine "github.com/cockroachdb/pebble/v2"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// A damaged table is compacted again and again, in vain; that takes next to nothing.
func TestACompactionThatFailsIsNotTriedAgainAtOnce(t *testing.T) {
	t.Parallel()
	// A table of level 0, and the log of which the next open makes another with the same rows.
	dir := filepath.Join(t.TempDir(), "data")
	for range 2 {
		s := mustOpen(t, pebble.Options{Dir: dir, Logger: silent})
		for i := range 100 {
			commitRow(t, s, storage.ID{Class: "c", Name: fmt.Sprintf("n%03d", i)}, "k", rand.Text()+rand.Text()+rand.Text())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	damage(t, last(t, dir, "*.sst"), flip)
	var failed atomic.Int64
	s := mustOpen(t, pebble.Options{Dir: dir, Logger: silent}.Tuned(func(o *engine.Options) {
		told := o.EventListener.BackgroundError
		o.EventListener.BackgroundError = func(err error) { failed.Add(1); told(err) }
	}))
	defer s.Close()
	for n := 0; failed.Load() == 0; n++ {
		if n == 1000 {
			t.Fatal("nothing was compacted")
		}
		time.Sleep(10 * time.Millisecond)
	}
	began := time.Now()
	time.Sleep(2500 * time.Millisecond)
	if n, seconds := failed.Load(), int64(time.Since(began)/time.Second); n < 2 || n > 2+seconds {
		t.Errorf("after %d s it has failed %d times", seconds, n)
	}
}

// Beside that compactions are what they are without it: the engine keeps up with who writes.
func TestTheEngineKeepsUpWithWhoWrites(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, pebble.Options{Dir: t.TempDir(), Logger: silent}.Tuned(func(o *engine.Options) { o.MemTableSize = 64 << 10 }))
	defer s.Close()
	for i := range 400 {
		commitRow(t, s, storage.ID{Class: "c", Name: fmt.Sprintf("n%d", i%20)}, fmt.Sprintf("k%d", i), strings.Repeat("x", 8<<10))
	}
	for n := 0; ; n++ {
		m := s.Engine().Metrics()
		if m.Compact.Count > 2 && m.Levels[0].TablesCount < 4 && m.Compact.NumInProgress == 0 {
			return
		}
		if n == 2000 {
			t.Fatalf("%d compactions, %d tables in level 0", m.Compact.Count, m.Levels[0].TablesCount)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
