package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

func testBatch(t *testing.T, s storage.Store) {
	epoch := claim(t, s, alpha)
	b := put(alpha, epoch, "a", "1", "b", "2")
	b.Alarm = &storage.Alarm{At: noon, Retry: 2}
	commit(t, s, b)
	wantRows(t, s, alpha, "a=1 b=2")
	wantRows(t, s, beta, "")
	v, err := s.Get(context.Background(), alpha, "b")
	if err != nil || string(v) != "2" {
		t.Errorf("get: %q, %v", v, err)
	}
	if v, err := s.Get(context.Background(), alpha, "c"); v != nil || err != nil {
		t.Errorf("get of a key that is not there: %q, %v", v, err)
	}
	a, err := s.Alarm(context.Background(), alpha)
	if err != nil || !a.At.Equal(noon) || a.Retry != 2 {
		t.Errorf("alarm: %v, %v", a, err)
	}
	commit(t, s, &storage.Batch{ID: alpha, Epoch: epoch, Deletes: []string{"a", "none"}})
	wantRows(t, s, alpha, "b=2")
}

func testBatchOrder(t *testing.T, s storage.Store) {
	epoch := claim(t, s, alpha)
	commit(t, s, put(alpha, epoch, "a", "1", "b", "2", "c", "3"))
	b := put(alpha, epoch, "b", "4", "b", "5")
	b.Deletes = []string{"b", "c"}
	commit(t, s, b)
	wantRows(t, s, alpha, "a=1 b=5")
	b = put(alpha, epoch, "d", "6")
	b.Clear, b.Deletes, b.Alarm = true, []string{"a"}, &storage.Alarm{At: noon}
	commit(t, s, b)
	wantRows(t, s, alpha, "d=6")
	if d := due(t, s, storage.Cursor{}, noon, 9); len(d) != 1 || d[0].ID != alpha {
		t.Errorf("due: %v", d)
	}
}

func testInvalid(t *testing.T, s storage.Store) {
	long := strings.Repeat("x", storage.MaxKey+1)
	bad := map[string]func(b *storage.Batch){
		"empty key":      func(b *storage.Batch) { b.Puts[1].Key = "" },
		"long key":       func(b *storage.Batch) { b.Puts[1].Key = long },
		"long delete":    func(b *storage.Batch) { b.Deletes = []string{long} },
		"empty delete":   func(b *storage.Batch) { b.Deletes = []string{""} },
		"large value":    func(b *storage.Batch) { b.Puts[1].Value = make([]byte, storage.MaxValue+1) },
		"alarm too far":  func(b *storage.Batch) { b.Alarm = &storage.Alarm{At: time.Unix(1<<50, 0)} },
		"negative retry": func(b *storage.Batch) { b.Alarm = &storage.Alarm{At: noon, Retry: -1} },
		"large batch": func(b *storage.Batch) {
			for i := range 5 {
				b.Puts = append(b.Puts, storage.Entry{Key: fmt.Sprint(i), Value: make([]byte, 16<<20)})
			}
		},
	}
	for name, spoil := range bad {
		epoch := claim(t, s, alpha)
		b := put(alpha, epoch, "a", "1", "b", "2")
		spoil(b)
		refused := make(chan error, 2)
		s.Submit(b, func(err error) { refused <- err })
		s.Submit(put(alpha, epoch, "behind", "it"), func(err error) { refused <- err })
		var e *storage.Error
		if err := <-refused; !errors.Is(err, storage.ErrInvalid) || !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-refused; !errors.Is(err, storage.ErrStaleEpoch) {
			t.Errorf("%s: the batch behind it: %v", name, err)
		}
		wantRows(t, s, alpha, "")
	}
	epoch := claim(t, s, alpha)
	b := put(alpha, epoch, long[:storage.MaxKey], strings.Repeat("v", storage.MaxValue))
	b.Alarm = &storage.Alarm{At: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), Retry: storage.MaxRetry}
	commit(t, s, b)
	v, err := s.Get(context.Background(), alpha, b.Puts[0].Key)
	if err != nil || len(v) != storage.MaxValue {
		t.Errorf("the longest key and value: %d bytes, %v", len(v), err)
	}
	if a, err := s.Alarm(context.Background(), alpha); err != nil || a != *b.Alarm {
		t.Errorf("the farthest alarm: %v, %v", a, err)
	}
}

func testClear(t *testing.T, s storage.Store) {
	// Neighbours in every order that the layout could confuse.
	ids := []storage.ID{
		{Class: "c", Name: "n"}, {Class: "c", Name: "m"}, {Class: "c", Name: "n\x01"}, {Class: "c", Name: "n0"},
		{Class: "c", Name: "na"}, {Class: "c", Name: "o"}, {Class: "c-", Name: "n"}, {Class: "b", Name: "n"},
		{Class: "c", Name: "n/\u00ff"}, {Class: "cn", Name: "n"},
	}
	epochs := map[storage.ID]uint64{}
	for _, id := range ids {
		epochs[id] = claim(t, s, id)
		b := put(id, epochs[id], "\x00", "0", "k", "1", "\xff\xff", "2")
		b.Alarm = &storage.Alarm{At: noon}
		commit(t, s, b)
	}
	commit(t, s, &storage.Batch{ID: ids[0], Epoch: epochs[ids[0]], Clear: true})
	for i, id := range ids {
		want := "\x00=0 k=1 \xff\xff=2"
		if i == 0 {
			want = ""
		}
		wantRows(t, s, id, want)
		if a, err := s.Alarm(context.Background(), id); err != nil || a.At.IsZero() != (i == 0) {
			t.Errorf("alarm of %q: %v, %v", id, a, err)
		}
	}
	if d := due(t, s, storage.Cursor{}, noon, 100); len(d) != len(ids)-1 {
		t.Errorf("due: %v", d)
	}
	if got, err := s.Objects(context.Background(), "c", "m", 1); err != nil || len(got) != 1 || got[0].Name != "n\x01" {
		t.Errorf("objects after the clear: %q, %v", got, err)
	}
	// A clear that sets the alarm to what it was keeps the row and the entry.
	b := alarmAt(ids[1], epochs[ids[1]], noon)
	b.Clear = true
	commit(t, s, b)
	if a, err := s.Alarm(context.Background(), ids[1]); err != nil || !a.At.Equal(noon) {
		t.Errorf("alarm: %v, %v", a, err)
	}
	if d := due(t, s, storage.Cursor{}, noon, 100); len(d) != len(ids)-1 {
		t.Errorf("due: %v", d)
	}
	// The fence is still there: nothing older gets in, and the next epoch is newer.
	if next := claim(t, s, ids[0]); next <= epochs[ids[0]] {
		t.Errorf("epoch %d after %d", next, epochs[ids[0]])
	}
}

func testClearSizes(t *testing.T, s storage.Store) {
	epoch := claim(t, s, alpha)
	commit(t, s, put(beta, claim(t, s, beta), "k", "v"))
	for _, n := range []int{0, 1, 255, 256, 257, 1000} {
		b := alarmAt(alpha, epoch, noon)
		for i := range n {
			b.Puts = append(b.Puts, storage.Entry{Key: fmt.Sprint(i), Value: []byte("v")})
		}
		s.Submit(b, func(error) {})
		s.Submit(put(alpha, epoch, "late", "v"), func(error) {})
		s.Submit(&storage.Batch{ID: alpha, Epoch: epoch, Clear: true}, func(error) {})
		commit(t, s, put(alpha, epoch, "after", fmt.Sprint(n)))
		wantRows(t, s, alpha, fmt.Sprintf("after=%d", n))
		if a, err := s.Alarm(context.Background(), alpha); err != nil || !a.At.IsZero() {
			t.Errorf("alarm: %v, %v", a, err)
		}
	}
	wantRows(t, s, beta, "k=v")
}

func testEmptyValue(t *testing.T, s storage.Store) {
	b := &storage.Batch{ID: alpha, Epoch: claim(t, s, alpha), Puts: []storage.Entry{{Key: "nil"}, {Key: "empty", Value: []byte{}}}}
	commit(t, s, b)
	for _, k := range []string{"nil", "empty"} {
		if v, err := s.Get(context.Background(), alpha, k); v == nil || len(v) != 0 || err != nil {
			t.Errorf("%s: %v, %v", k, v, err)
		}
	}
	wantRows(t, s, alpha, "empty= nil=")
}
