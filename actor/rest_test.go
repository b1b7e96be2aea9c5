package actor_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"

	"github.com/kalpahost/kalpa/actor"
)

// TestAnObjectAtRestTakesLittle of the heap. What it takes of a process's memory is
// somewhat more: docs/benchmarks.md has that.
func TestAnObjectAtRestTakesLittle(t *testing.T) {
	const objects, most = 5000, 1100 // bytes
	h := newLab(t, actor.Options{EvictAfter: -1})
	nothing := register(func(context.Context, *actor.State) error { return nil })
	use := func(from, to int) uint64 {
		for n := from; n < to; n++ {
			if _, err := runCode.Do(t.Context(), h.Stub(thingID(strconv.Itoa(n))), nothing); err != nil {
				t.Fatal(err)
			}
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what is pooled goes with the second one
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := use(0, 100)
	if each := (use(100, 100+objects) - before) / objects; each > most {
		t.Errorf("%d bytes, and %d are enough", each, most)
	}
}
