package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kalpahost/kalpa/storage"
)

func testAlarm(t *testing.T, s storage.Store) {
	ctx := context.Background()
	check := func(want ...storage.Due) {
		t.Helper()
		d := due(t, s, storage.Cursor{}, noon.Add(24*time.Hour), 100)
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("due (-want +got):\n%s", diff)
		}
	}
	a, b := claim(t, s, alpha), claim(t, s, beta)
	at := func(id storage.ID, m, retry int) storage.Due {
		return storage.Due{ID: id, Alarm: storage.Alarm{At: noon.Add(time.Duration(m) * time.Minute), Retry: retry}}
	}
	set := func(id storage.ID, epoch uint64, m, retry int) {
		t.Helper()
		alarm := at(id, m, retry).Alarm
		commit(t, s, &storage.Batch{ID: id, Epoch: epoch, Alarm: &alarm})
		if got, err := s.Alarm(ctx, id); err != nil || got != alarm {
			t.Errorf("alarm: %v, %v, want %v", got, err, alarm)
		}
	}
	set(alpha, a, 5, 0)
	set(beta, b, 3, 0)
	check(at(beta, 3, 0), at(alpha, 5, 0))
	set(alpha, a, 1, 0)
	check(at(alpha, 1, 0), at(beta, 3, 0))
	set(alpha, a, 1, 1) // the same time, another count
	check(at(alpha, 1, 1), at(beta, 3, 0))
	set(alpha, a, 1, 1) // nothing changes
	set(beta, b, 1, 0)  // two at one time: by ID
	check(at(alpha, 1, 1), at(beta, 1, 0))
	// A retry keeps the time that the alarm was set to, and can be one at that time.
	retried := storage.Alarm{At: noon.Add(2 * time.Minute), Retry: 1, Set: noon.Add(time.Minute)}
	for _, want := range []storage.Alarm{retried, {At: retried.At, Retry: 1}, retried, {At: retried.Set, Retry: 1}} {
		commit(t, s, &storage.Batch{ID: alpha, Epoch: a, Alarm: &want})
		if got, err := s.Alarm(ctx, alpha); err != nil || got != want || got.Scheduled().IsZero() {
			t.Errorf("a retry: %v, %v, want %v", got, err, want)
		}
	}
	s.Release(alpha, a)
	a = claim(t, s, alpha) // the next incarnation moves what it found
	set(alpha, a, 2, 0)
	check(at(beta, 1, 0), at(alpha, 2, 0))
	commit(t, s, put(alpha, a, "k", "v")) // leaves the alarm alone
	check(at(beta, 1, 0), at(alpha, 2, 0))
	commit(t, s, &storage.Batch{ID: beta, Epoch: b, Alarm: &storage.Alarm{}})
	check(at(alpha, 2, 0))
	if got, err := s.Alarm(ctx, beta); err != nil || got != (storage.Alarm{}) {
		t.Errorf("a deleted alarm: %v, %v", got, err)
	}
	commit(t, s, &storage.Batch{ID: beta, Epoch: b, Alarm: &storage.Alarm{}}) // once more
	s.Release(alpha, a)
	a = claim(t, s, alpha)
	commit(t, s, &storage.Batch{ID: alpha, Epoch: a, Clear: true})
	check()
	// A time zone and a monotonic reading are not part of a time.
	zone := noon.In(time.FixedZone("east", 5*3600))
	commit(t, s, &storage.Batch{ID: alpha, Epoch: a, Alarm: &storage.Alarm{At: zone, Set: zone.Add(-1)}}) // and is to the microsecond
	if got, err := s.Alarm(ctx, alpha); err != nil || got != (storage.Alarm{At: noon}) {
		t.Errorf("an alarm that is not a retry: %v, %v", got, err)
	}
	check(storage.Due{ID: alpha, Alarm: storage.Alarm{At: noon}})
	commit(t, s, alarmAt(beta, b, time.Unix(-5, 0))) // before 1970
	check(storage.Due{ID: beta, Alarm: storage.Alarm{At: time.Unix(-5, 0).UTC()}}, storage.Due{ID: alpha, Alarm: storage.Alarm{At: noon}})
}

func testDuePages(t *testing.T, s storage.Store) {
	const n = 25
	for i := range n {
		id := storage.ID{Class: "c", Name: fmt.Sprintf("%02d", i)}
		commit(t, s, alarmAt(id, claim(t, s, id), noon.Add(time.Duration(i/5)*time.Second)))
	}
	last := noon.Add(4 * time.Second)
	for _, size := range []int{1, 2, 5, 7, n, n + 1} {
		var names []string
		for after := (storage.Cursor{}); ; {
			page := due(t, s, after, last, size)
			if len(page) > size || len(names) > n {
				t.Fatalf("%d rows, at most %d were wanted, after %d of %d", len(page), size, len(names), n)
			}
			if len(page) == 0 {
				break
			}
			for _, d := range page {
				names = append(names, d.ID.Name)
				after = storage.Cursor{At: d.At, ID: d.ID}
			}
		}
		if !slices.IsSorted(names) || len(names) != n {
			t.Errorf("pages of %d: %v", size, names)
		}
	}
	if d := due(t, s, storage.Cursor{}, noon.Add(2*time.Second-time.Nanosecond), 100); len(d) != 10 {
		t.Errorf("before the third second: %d rows, want 10", len(d))
	}
	if d := due(t, s, storage.Cursor{}, noon.Add(2*time.Second), 100); len(d) != 15 {
		t.Errorf("until the third second: %d rows, want 15", len(d))
	}
	if d := due(t, s, storage.Cursor{At: noon.Add(time.Second)}, last, 100); len(d) != 20 {
		t.Errorf("from a time: %d rows, want 20", len(d))
	}
	if d := due(t, s, storage.Cursor{}, last, 0); len(d) != 0 {
		t.Errorf("at most none: %v", d)
	}
	if d := due(t, s, storage.Cursor{At: last.Add(time.Hour)}, last, 9); len(d) != 0 {
		t.Errorf("a cursor after the end: %v", d)
	}
	if d := due(t, s, storage.Cursor{}, time.Unix(1<<60, 0), 100); len(d) != n {
		t.Errorf("until the end of time: %d rows", len(d))
	}
	if d := due(t, s, storage.Cursor{}, time.Time{}, 100); len(d) != 0 {
		t.Errorf("until the beginning of time: %v", d)
	}
}

// testDueFront moves alarms to and fro across what an implementation may
// remember as the earliest one.
func testDueFront(t *testing.T, s storage.Store) {
	a, b := claim(t, s, alpha), claim(t, s, beta)
	first := func(until time.Time, want storage.ID, at time.Time) {
		t.Helper()
		for range 2 {
			d := due(t, s, storage.Cursor{}, until, 1)
			if want == (storage.ID{}) {
				if len(d) != 0 {
					t.Fatalf("due until %v: %v, want none", until, d)
				}
			} else if len(d) != 1 || d[0].ID != want || !d[0].At.Equal(at) {
				t.Fatalf("due until %v: %v, want %v at %v", until, d, want, at)
			}
		}
	}
	at := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	first(at(60), storage.ID{}, at(0))
	commit(t, s, alarmAt(alpha, a, at(30)))
	first(at(60), alpha, at(30))
	first(at(10), storage.ID{}, at(0))
	commit(t, s, alarmAt(beta, b, at(5)))
	first(at(10), beta, at(5))
	commit(t, s, alarmAt(beta, b, at(40)))
	first(at(60), alpha, at(30))
	commit(t, s, alarmAt(alpha, a, at(50)))
	first(at(60), beta, at(40))
	commit(t, s, &storage.Batch{ID: beta, Epoch: b, Clear: true})
	first(at(60), alpha, at(50))
	commit(t, s, &storage.Batch{ID: alpha, Epoch: a, Alarm: &storage.Alarm{}})
	first(at(60), storage.ID{}, at(0))
	commit(t, s, alarmAt(alpha, a, at(60)))
	first(at(60), alpha, at(60))
	commit(t, s, alarmAt(alpha, a, at(-600)))
	first(at(60), alpha, at(-600))
}

func testObserver(t *testing.T, s storage.Store) {
	var mu sync.Mutex
	var heard []string
	s.OnAlarm(func(id storage.ID, at time.Time) {
		seen := "unseen"
		if d, err := s.Due(context.Background(), storage.Cursor{}, at, 9); err == nil {
			for _, d := range d {
				if d.ID == id && d.At.Equal(at) {
					seen = "seen"
				}
			}
		}
		mu.Lock()
		heard = append(heard, fmt.Sprintf("%s %s %s", id.Name, at.Sub(noon), seen))
		mu.Unlock()
	})
	a := claim(t, s, alpha)
	step := func(b *storage.Batch, want ...string) {
		t.Helper()
		done := make(chan []string)
		s.Submit(b, func(error) {
			mu.Lock()
			h := slices.Clone(heard)
			heard = nil
			mu.Unlock()
			done <- h
		})
		if diff := cmp.Diff(want, <-done); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
	}
	step(alarmAt(alpha, a, noon), "alpha 0s seen")
	step(alarmAt(alpha, a, noon.Add(time.Second)), "alpha 1s seen")
	step(alarmAt(alpha, a, noon.Add(time.Second)), "alpha 1s seen")
	step(alarmAt(alpha, a, time.Time{}))
	step(put(alpha, a, "k", "v"))
	step(alarmAt(alpha, a-1, noon)) // stale
	step(alarmAt(alpha, a, noon.Add(time.Minute)), "alpha 1m0s seen")
}

func testAlarmRounding(t *testing.T, s storage.Store) {
	a := claim(t, s, alpha)
	for given, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Microsecond, 999: time.Microsecond, 1000: time.Microsecond, 1001: 2 * time.Microsecond,
		time.Second - 1: time.Second,
	} {
		commit(t, s, alarmAt(alpha, a, noon.Add(given)))
		got, err := s.Alarm(context.Background(), alpha)
		if err != nil || !got.At.Equal(noon.Add(want)) || got.At.Location() != time.UTC {
			t.Errorf("noon + %v is stored as noon + %v, want + %v (%v)", given, got.At.Sub(noon), want, err)
		}
		if d := due(t, s, storage.Cursor{}, noon.Add(want-1), 1); len(d) != 0 {
			t.Errorf("due before its time (I6): %v", d)
		}
	}
}
