package storage

import (
	"errors"
	"testing"
	"time"
)

func TestEpochsOrderAsBootAndCounterAndFitIntoJSON(t *testing.T) {
	pairs := [][2]uint32{{0, 1}, {1, 0}, {1, 1}, {1, 1<<32 - 1}, {2, 0}, {MaxBoot, 0}, {MaxBoot, 1<<32 - 1}}
	last := uint64(0)
	for _, p := range pairs {
		epoch := MakeEpoch(p[0], p[1])
		if epoch <= last || epoch >= 1<<53 || uint64(float64(epoch)) != epoch {
			t.Errorf("boot %d, counter %d: epoch %d after %d", p[0], p[1], epoch, last)
		}
		if boot, counter := SplitEpoch(epoch); boot != p[0] || counter != p[1] {
			t.Errorf("%v splits into %d, %d", p, boot, counter)
		}
		last = epoch
	}
}

// acquired claims an object that was never written to.
func acquired(t *testing.T, f *Fence, id ID) *Incarnation {
	t.Helper()
	in := f.Claim(id)
	if err := in.Acquire(id, 0, Alarm{}); err != nil {
		t.Fatal(err)
	}
	return in
}

func TestFenceAdmitsTheClaimedEpochAndNoOther(t *testing.T) {
	f := NewFence(1)
	id, other := ID{"c", "n"}, ID{"c", "o"}
	admits := func(id ID, epoch uint64) bool {
		_, ok := f.Admit(&Batch{ID: id, Epoch: epoch})
		return ok
	}
	first := acquired(t, f, id)
	if !admits(id, first.Epoch) || admits(id, first.Epoch+1) || admits(id, 0) || admits(other, first.Epoch) {
		t.Error("a claimed object")
	}
	second := f.Claim(id)
	if admits(id, first.Epoch) || admits(id, second.Epoch) {
		t.Error("between claim and acquisition something was admitted")
	}
	if err := second.Acquire(id, first.Epoch, Alarm{}); err != nil {
		t.Fatal(err)
	}
	f.Release(id, first.Epoch)
	if admits(id, first.Epoch) || !admits(id, second.Epoch) {
		t.Error("a superseded incarnation")
	}
	f.Release(id, second.Epoch)
	if admits(id, second.Epoch) || f.Claimed() != 0 {
		t.Errorf("after the release; %d are claimed", f.Claimed())
	}
}

func TestFenceRowGoesWithTheFirstBatchOfAnIncarnation(t *testing.T) {
	f := NewFence(1)
	id := ID{"c", "n"}
	for range 2 {
		in := acquired(t, f, id)
		for i := range 3 {
			if w, ok := f.Admit(&Batch{ID: id, Epoch: in.Epoch}); !ok || w.Fence != (i == 0) {
				t.Errorf("batch %d: admitted %v, with the fence row %v", i, ok, w.Fence)
			}
		}
	}
}

func TestAcquireFailsUnlessTheStoredEpochIsOlder(t *testing.T) {
	f := NewFence(2)
	id := ID{"c", "n"}
	for stored, want := range map[uint64]bool{
		0: true, MakeEpoch(1, 1<<32-1): true, MakeEpoch(2, 1<<20): false, MakeEpoch(3, 0): false,
	} {
		in := f.Claim(id)
		err := in.Acquire(id, stored, Alarm{})
		var e *Error
		if (err == nil) != want || err != nil && !(errors.As(err, &e) && errors.Is(err, ErrStaleEpoch) && e.ID == id && e.Hint != "") {
			t.Errorf("epoch %d over %d: %v", in.Epoch, stored, err)
		}
		if _, ok := f.Admit(&Batch{ID: id, Epoch: in.Epoch}); ok != want {
			t.Errorf("epoch %d over %d: admitted is %v", in.Epoch, stored, ok)
		}
	}
	in := f.Claim(id)
	if in.Acquire(id, in.Epoch, Alarm{}) == nil {
		t.Error("an epoch was acquired twice")
	}
}

func TestFenceKnowsTheAlarmThatABatchReplaces(t *testing.T) {
	f := NewFence(1)
	id := ID{"c", "n"}
	at := func(s int) Alarm { return Alarm{At: time.Unix(int64(s), 0).UTC()} }
	in := f.Claim(id)
	if err := in.Acquire(id, 0, at(1)); err != nil {
		t.Fatal(err)
	}
	two, none := at(2), Alarm{}
	retried := Alarm{At: two.At, Retry: 1}
	of := Alarm{At: two.At, Retry: 1, Set: at(1).At}
	for i, step := range []struct {
		batch                    Batch
		was, is                  Alarm
		row, dropRow, put, dropE bool
	}{
		{Batch{}, at(1), at(1), false, false, false, false},
		{Batch{Alarm: &two}, at(1), at(2), true, false, true, true},
		{Batch{Alarm: &two}, at(2), at(2), false, false, false, false},
		{Batch{Alarm: &retried}, at(2), retried, true, false, true, false},
		{Batch{Alarm: &of}, retried, of, true, false, true, false},
		{Batch{Alarm: &of}, of, of, false, false, false, false},
		{Batch{Alarm: &two, Clear: true}, of, at(2), true, false, true, false},
		{Batch{Alarm: &two, Clear: true}, at(2), at(2), true, false, false, false},
		{Batch{Clear: true}, at(2), none, false, false, false, true},
		{Batch{Clear: true}, none, none, false, false, false, false},
		{Batch{Alarm: &none}, none, none, false, false, false, false},
		{Batch{Alarm: &two}, none, at(2), true, false, true, false},
		{Batch{Alarm: &none}, at(2), none, false, true, false, true},
	} {
		step.batch.ID, step.batch.Epoch = id, in.Epoch
		w, ok := f.Admit(&step.batch)
		if !ok || w.Was != step.was || w.Is != step.is {
			t.Errorf("step %d: from %v to %v", i, w.Was, w.Is)
		}
		if w.AlarmRow() != step.row || w.DropAlarmRow() != step.dropRow || w.IndexEntry() != step.put || w.DropIndexEntry() != step.dropE {
			t.Errorf("step %d: row %v, drop row %v, entry %v, drop entry %v", i, w.AlarmRow(), w.DropAlarmRow(), w.IndexEntry(), w.DropIndexEntry())
		}
	}
}

func TestFenceGoesOnUnderANewBootWhenItsCounterIsUsedUp(t *testing.T) {
	f := NewFence(7)
	id := ID{"c", "n"}
	old := acquired(t, f, id)
	f.counter = 1<<32 - 2
	last := acquired(t, f, ID{"c", "last"})
	if !f.Exhausted() {
		t.Fatal("the counter is at its end, and the fence is not exhausted")
	}
	mustPanic(t, func() { f.Claim(id) })
	mustPanic(t, func() { f.Reboot(7) })
	f.Reboot(8)
	next := acquired(t, f, ID{"c", "next"})
	if next.Epoch <= last.Epoch {
		t.Errorf("epoch %d after %d", next.Epoch, last.Epoch)
	}
	if _, ok := f.Admit(&Batch{ID: id, Epoch: old.Epoch}); !ok {
		t.Error("a claim did not survive the new boot number")
	}
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}
