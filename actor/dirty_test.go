package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// An object that has as much under way as it may waits at its next write, for the disk
// and for nothing else: it is not reset, other objects go on, and what a turn writes
// is one commit all the same.
func TestAnObjectThatWritesFasterThanTheDiskWaitsForIt(t *testing.T) {
	w := newWard(t, actor.Options{DirtyLimit: 64 << 10, EvictAfter: -1})
	epoch := func() uint64 { return w.Epoch(storage.ID{Class: "victim", Name: "a"}) }
	w.disk.hold(false, true)
	first := w.call("a", writes(40<<10))
	w.eventually("the first is on its way", func() bool { return w.disk.holds() == 1 })
	began := epoch()
	second := w.call("a", writes(40<<10)) // there was less than the limit
	w.eventually("so is the second", func() bool { return w.disk.holds() == 2 })
	entered, wrote := make(chan struct{}), make(chan struct{})
	third := w.call("a", func(s *actor.State) error {
		close(entered)
		if _, err := s.Get("k"); err != nil { // only writes wait
			return err
		}
		if err := s.Put("k", []byte("3")); err != nil {
			return err
		}
		close(wrote)
		return s.Put("l", []byte("3"))
	})
	<-entered
	other := w.call("b", writes(40<<10))
	w.eventually("another object's write is on its way", func() bool { return w.disk.holds() == 3 })
	select {
	case <-wrote:
		t.Error("the third write did not wait")
	case <-time.After(settle):
	}
	w.disk.release()
	for _, of := range []<-chan error{first, second, third, other} {
		if err := w.answer(of); err != nil {
			t.Error(err)
		}
	}
	if epoch() != began {
		t.Error("the object was reset")
	}
}

// A reset ends the waiting.
func TestAWriteThatWaitsForTheDiskIsReset(t *testing.T) {
	w := newWard(t, actor.Options{DirtyLimit: 1 << 10, EvictAfter: -1})
	w.disk.hold(false, true)
	w.call("a", writes(2<<10))
	w.eventually("the first is on its way", func() bool { return w.disk.holds() == 1 })
	entered, left := make(chan struct{}), make(chan error, 1)
	failed := w.call("a", func(s *actor.State) error {
		close(entered)
		err := s.Put("k", []byte("v"))
		left <- err
		return err
	})
	<-entered
	time.Sleep(settle)
	w.Reset(storage.ID{Class: "victim", Name: "a"}, actor.Aborted, nil)
	if err := w.answer(failed); actor.CauseOf(err) != actor.Aborted {
		t.Errorf("got %v", err)
	}
	<-left // the goroutine has not stayed behind
	w.disk.release()
	if err := w.answer(w.call("a", func(s *actor.State) error { return s.Sync(context.Background()) })); err != nil {
		t.Error(err)
	}
}
