package pebble

import (
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

func TestTheFrontRisesToTheEarliestRowAndFallsToWhatIsSet(t *testing.T) {
	var f front
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	low := func(want time.Time) {
		t.Helper()
		if !f.low.Equal(want) {
			t.Errorf("low is %v, want %v", f.low.Unix(), want.Unix())
		}
	}
	scan := func(after storage.Cursor, during func(), first int) storage.Cursor {
		from, n := f.begin(after)
		during()
		f.found(n, at(first))
		return from
	}
	nothing := func() {}
	scan(storage.Cursor{}, nothing, 10)
	low(at(10))
	if from := scan(storage.Cursor{}, nothing, 12); !from.At.Equal(at(10)) {
		t.Errorf("a scan from the beginning begins at %v", from.At.Unix())
	}
	low(at(12))
	f.lower(at(15))
	low(at(12))
	f.lower(at(11))
	low(at(11))
	// A scan that began later than the front knows nothing of what is before it.
	id := storage.ID{Class: "c", Name: "n"}
	for _, after := range []storage.Cursor{{At: at(12)}, {At: at(11), ID: id}} {
		if from := scan(after, nothing, 30); from != after {
			t.Errorf("a cursor was moved to %v", from)
		}
		low(at(11))
	}
	scan(storage.Cursor{At: at(11)}, nothing, 20)
	low(at(20))
	// What is set while a scan is under way may be hidden from it.
	scan(storage.Cursor{}, func() { f.lower(at(25)) }, 40)
	low(at(25))
	scan(storage.Cursor{}, func() { f.lower(at(5)) }, 40)
	low(at(5))
	// Of two scans at a time, the older one has forgotten what was set before the
	// newer one began.
	scan(storage.Cursor{}, func() {
		f.lower(at(7))
		scan(storage.Cursor{}, nothing, 7)
		low(at(7))
	}, 50)
	low(at(7))
}

func TestTheGateWaitsForReadsAndLetsNestedOnesBe(t *testing.T) {
	g := newGate()
	for range 2 {
		if !g.enter() {
			t.Fatal("an open gate is closed")
		}
	}
	closed := make(chan struct{})
	go func() {
		g.close()
		close(closed)
	}()
	for g.inside.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	if g.enter() {
		t.Error("entered a closed gate")
	}
	g.leave()
	select {
	case <-closed:
		t.Error("closed with a read inside")
	case <-time.After(10 * time.Millisecond):
	}
	g.leave()
	<-closed
	if g.enter() {
		t.Error("entered a closed gate")
	}
	empty := newGate()
	empty.close()
}
