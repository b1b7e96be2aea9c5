package actor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// sized is an event that nobody knows and that has a size.
type sized int

func (s sized) Size() int { return int(s) }

// What waits for one object is bounded in number, bytes and age, each at its edge; what
// has been taken makes room, and other objects are not concerned (I12).
func TestWhatWaitsForAnObjectIsBoundedI12(t *testing.T) {
	a, b := storage.ID{Class: "victim", Name: "a"}, storage.ID{Class: "victim", Name: "b"}
	w := newWard(t, actor.Options{MaxQueued: 4, MaxQueuedBytes: 100, MaxQueuedFor: 5 * time.Second, EvictAfter: -1})
	w.clock.Advance(time.Minute) // age is not counted from the host's beginning
	busy := func() (free func()) {
		t.Helper()
		w.eventually("the queue is empty", func() bool { return w.answer(w.call("a", nil)) == nil })
		f, begun, free := occupied()
		w.call("a", f)
		select {
		case <-begun:
		case <-time.After(10 * time.Second):
			t.Fatal("it does not begin")
		}
		return free
	}
	send := func(size int, want actor.Cause) {
		t.Helper()
		err := w.Send(a, sized(size), nil)
		var e *actor.Error
		if got := actor.CauseOf(err); got != want {
			t.Fatalf("an event of %d bytes: got %v, want %v", size, err, want)
		} else if want != actor.NoCause && (!errors.As(err, &e) || e.ID != a || e.Op != "send" || e.Hint == "" || !e.Overloaded() || e.Reset() || e.Transient()) {
			t.Errorf("got %+v", e)
		}
	}
	ok := actor.NoCause
	free := busy()
	send(1000, ok) // the first that waits may have any size
	send(0, actor.OverloadedBytes)
	free()

	free = busy()
	send(60, ok)
	send(41, actor.OverloadedBytes)
	send(40, ok)
	send(0, ok)
	send(0, ok)
	send(0, actor.Overload)
	if err := w.Send(b, sized(1000), nil); err != nil {
		t.Errorf("another object: %v", err)
	}
	free()

	free = busy()
	send(1, ok)
	w.clock.Advance(4900 * time.Millisecond)
	send(1, ok)
	w.clock.Advance(100 * time.Millisecond)
	send(1, actor.OverloadedAge)
	free()
	free = busy() // what has been refused was not the object's end, and a new queue is young
	send(1, ok)
	free()
}
