package actor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

func numbered(n int) (keys []string, rows map[string][]byte) {
	rows = map[string][]byte{}
	for i := range n {
		k := fmt.Sprintf("k%03d", i)
		keys = append(keys, k)
		rows[k] = []byte{byte(i)}
	}
	return keys, rows
}

func TestManyRowsInOneCall(t *testing.T) {
	l := newLab(t, actor.Options{})
	keys, all := numbered(actor.MaxKeys)
	l.must("a", func(_ context.Context, s *actor.State) error { return s.PutMany(all) })
	l.must("a", func(_ context.Context, s *actor.State) error {
		got, err := s.GetMany(append(keys[:127:127], "nothing")...)
		if err != nil || len(got) != 127 || got["k126"][0] != 126 {
			t.Errorf("read %d rows: %v", len(got), err)
		}
		return s.Delete(keys[1:]...)
	})
	l.has("a", "k000=\x00 ")
}

func TestWhatCantBeStoredIsRefusedAndNothingWritten(t *testing.T) {
	l := newLab(t, actor.Options{})
	long, large := strings.Repeat("k", actor.MaxKey+1), make([]byte, actor.MaxValue+1)
	keys, many := numbered(actor.MaxKeys + 1)
	l.must("a", func(_ context.Context, s *actor.State) error {
		for _, bad := range []string{"", long, "\x00", "\x00schedule/e/1"} {
			_, err := s.Get(bad)
			l.refused(err, actor.ErrKey, "get")
			_, err = s.GetMany("a", bad)
			l.refused(err, actor.ErrKey, "get")
			l.refused(s.Put(bad, nil), actor.ErrKey, "put")
			l.refused(s.PutMany(map[string][]byte{"a": {1}, bad: {2}}), actor.ErrKey, "put")
			l.refused(s.Delete("a", bad), actor.ErrKey, "delete")
		}
		l.refused(s.Put("a", large), actor.ErrTooLarge, "put")
		l.refused(s.PutMany(map[string][]byte{"a": {1}, "b": large}), actor.ErrTooLarge, "put")
		_, err := s.GetMany(keys...)
		l.refused(err, actor.ErrTooManyKeys, "get")
		l.refused(s.PutMany(many), actor.ErrTooManyKeys, "put")
		l.refused(s.Delete(keys...), actor.ErrTooManyKeys, "delete")
		return nil
	})
	l.has("a", "")
	l.must("a", func(_ context.Context, s *actor.State) error {
		return s.Put(long[1:], large[1:])
	})
	l.must("a", func(_ context.Context, s *actor.State) error {
		if v, err := s.Get(long[1:]); len(v) != actor.MaxValue {
			t.Errorf("the largest row is not kept: %d bytes, %v", len(v), err)
		}
		return nil
	})
}

// What is too much for one commit is refused when it is written, and not when it
// is too late.
func TestOneCommitIsBounded(t *testing.T) {
	l := newLab(t, actor.Options{})
	value := make([]byte, actor.MaxValue)
	l.must("a", func(ctx context.Context, s *actor.State) error {
		n := 0
		for ; n < 100; n++ {
			if err := s.Put(fmt.Sprint(n), value); err != nil {
				l.refused(err, actor.ErrTooLarge, "put")
				break
			}
		}
		if n < 20 || n == 100 {
			t.Errorf("%d rows of %d bytes in one commit", n, len(value))
		}
		for range 100 { // the same row again is not more
			if err := s.Put("0", value); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Sync(ctx); err != nil {
			return err
		}
		return s.Put("there is room again", value)
	})
}

func TestListOptions(t *testing.T) {
	l := newLab(t, actor.Options{})
	l.must("a", func(_ context.Context, s *actor.State) error {
		for _, k := range []string{"a", "b", "b/1", "b/2", "c", "é", "z\xff"} {
			if err := s.Put(k, []byte{'1'}); err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range []struct {
		r    storage.Range
		want string
	}{
		{storage.Range{}, "a b b/1 b/2 c z\xff é"},
		{storage.Range{Start: "b"}, "b b/1 b/2 c z\xff é"},
		{storage.Range{Start: "b/"}, "b/1 b/2 c z\xff é"},
		{storage.Range{After: "b"}, "b/1 b/2 c z\xff é"},
		{storage.Range{End: "b/2"}, "a b b/1"},
		{storage.Range{Start: "b", End: "c"}, "b b/1 b/2"},
		{storage.Range{Start: "c", End: "b"}, ""},
		{storage.Range{Start: "b", End: "b"}, ""},
		{storage.Range{Prefix: "b/"}, "b/1 b/2"},
		{storage.Range{Prefix: "b", Start: "b/1"}, "b/1 b/2"},
		{storage.Range{Prefix: "b", After: "b/1"}, "b/2"},
		{storage.Range{Prefix: "b", End: "b/1"}, "b"},
		{storage.Range{Prefix: "b", Start: "c"}, ""},
		{storage.Range{Prefix: "z\xff"}, "z\xff"},
		{storage.Range{Prefix: "nothing"}, ""},
		{storage.Range{Reverse: true}, "é z\xff c b/2 b/1 b a"},
		{storage.Range{Reverse: true, Start: "b", End: "c"}, "b/2 b/1 b"}, // the bounds are not swapped
		{storage.Range{Reverse: true, After: "b", Limit: 2}, "é z\xff"},
		{storage.Range{Limit: 1}, "a"},
		{storage.Range{Prefix: "b", Limit: 2}, "b b/1"},
		{storage.Range{Prefix: "b", Reverse: true, Limit: 2}, "b/2 b/1"},
		{storage.Range{Limit: 100}, "a b b/1 b/2 c z\xff é"},
	} {
		l.must("a", func(_ context.Context, s *actor.State) error {
			got, err := rows(s, c.r)
			if got = strings.TrimSuffix(strings.ReplaceAll(got, "=1 ", " "), " "); got != c.want {
				t.Errorf("%+v: %q, want %q", c.r, got, c.want)
			}
			return err
		})
	}
	l.must("a", func(_ context.Context, s *actor.State) error {
		for _, r := range []storage.Range{{Start: "a", After: "a"}, {Limit: -1}} {
			_, err := rows(s, r)
			l.refused(err, actor.ErrRange, "list")
		}
		return nil
	})
}

// Rows may be written while they are listed.
func TestListSeesWhatWasThereWhenItBegan(t *testing.T) {
	l := newLab(t, actor.Options{})
	l.must("a", func(_ context.Context, s *actor.State) error {
		for _, k := range []string{"a", "c", "e"} {
			if err := s.Put(k, []byte("old")); err != nil {
				return err
			}
		}
		return nil
	})
	l.must("a", func(_ context.Context, s *actor.State) error {
		if err := s.Put("c", []byte("newer")); err != nil {
			return err
		}
		got := ""
		for e, err := range s.List(storage.Range{}) {
			if err != nil {
				return err
			}
			got += e.Key + "=" + string(e.Value) + " "
			for _, k := range []string{"b", "d", "e"} {
				if err := s.Put(k, []byte("written in the loop")); err != nil {
					return err
				}
			}
		}
		if want := "a=old c=newer e=old "; got != want {
			t.Errorf("listed %q, want %q", got, want)
		}
		return s.Delete("b", "d")
	})
	l.has("a", "a=old c=newer e=written in the loop ")
}

func TestDeleteAllTakesTheAlarmAndWhatFollowsItStays(t *testing.T) {
	l := newLab(t, actor.Options{})
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	set := func(_ context.Context, s *actor.State) error {
		if err := s.PutMany(map[string][]byte{"a": {'1'}, "b": {'2'}}); err != nil {
			return err
		}
		return s.SetAlarm(at)
	}
	alarmIs := func(want time.Time) {
		t.Helper()
		if a, err := l.Store().Alarm(t.Context(), thingID("a")); err != nil || !a.At.Equal(want) {
			t.Errorf("the alarm is at %v, want %v; %v", a.At, want, err)
		}
	}
	l.must("a", set)
	alarmIs(at)
	l.must("a", func(_ context.Context, s *actor.State) error { return s.DeleteAll() })
	l.has("a", "")
	alarmIs(time.Time{})

	l.must("a", set)
	l.must("a", func(_ context.Context, s *actor.State) error {
		if err := s.DeleteAll(); err != nil {
			return err
		}
		if err := s.Put("c", []byte("3")); err != nil {
			return err
		}
		return s.SetAlarm(at.Add(time.Hour))
	})
	l.has("a", "c=3 ")
	alarmIs(at.Add(time.Hour))
}

// countingStore counts the batches that reach the store.
type countingStore struct {
	storage.Store
	batches chan int // the number of puts in each
}

func (c *countingStore) Submit(b *storage.Batch, done func(error)) {
	c.batches <- len(b.Puts)
	c.Store.Submit(b, done)
}

func TestWritesWithNoAwaitInBetweenAreOneCommit(t *testing.T) {
	mem := storage.NewMemory()
	defer mem.Close()
	store := &countingStore{mem, make(chan int, 100)}
	l := newLab(t, actor.Options{Store: store})
	l.must("a", func(ctx context.Context, s *actor.State) error {
		for range 2 {
			for _, k := range []string{"a", "b", "c"} {
				if err := s.Put(k, nil); err != nil {
					return err
				}
				if _, err := s.Get(k); err != nil { // reading is no await
					return err
				}
			}
			if err := s.Sync(ctx); err != nil {
				return err
			}
		}
		return s.Put("d", nil)
	})
	close(store.batches)
	got := ""
	for n := range store.batches {
		got += fmt.Sprint(n, " ")
	}
	if got != "3 3 1 " {
		t.Errorf("committed batches of %s rows, want 3 3 1", got)
	}
}

func TestSyncWaitsUntilEverythingIsDurable(t *testing.T) {
	mem := storage.NewMemory()
	defer mem.Close()
	slow := &slowStore{Store: mem, hold: make(chan struct{})}
	l := newLab(t, actor.Options{Store: slow})
	synced := make(chan struct{})
	done := l.begin("a", func(ctx context.Context, s *actor.State) error {
		if err := s.Put("a", []byte("1")); err != nil {
			return err
		}
		err := s.Sync(ctx)
		close(synced)
		return err
	})
	select {
	case <-synced:
		t.Fatal("Sync returned before the commit")
	case <-time.After(settle):
	}
	close(slow.hold)
	<-synced
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
