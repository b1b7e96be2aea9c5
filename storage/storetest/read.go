package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/storage"
)

func testInvalidReads(t *testing.T, s storage.Store) {
	ctx := context.Background()
	for _, id := range []storage.ID{
		{}, {Class: "c"}, {Name: "n"}, {Class: "a/b", Name: "n"}, {Class: "c\x00", Name: "n"}, {Class: "é", Name: "n"},
		{Class: strings.Repeat("c", storage.MaxClass+1), Name: "n"},
		{Class: "c", Name: "n\x00"}, {Class: "c", Name: "\xff"}, {Class: "c", Name: strings.Repeat("n", storage.MaxName+1)},
	} {
		_, errGet := s.Get(ctx, id, "k")
		_, errAlarm := s.Alarm(ctx, id)
		_, errClaim := storage.Claim(ctx, s, id)
		var errList error
		for _, err := range s.List(ctx, id, storage.Range{}) {
			errList = err
		}
		errCommit := storage.Commit(ctx, s, put(id, 1, "k", "v"))
		for i, err := range []error{errGet, errAlarm, errClaim, errList, errCommit} {
			var e *storage.Error
			if !errors.Is(err, storage.ErrInvalid) || !errors.As(err, &e) {
				t.Errorf("%q, operation %d: %v", id, i, err)
			}
		}
	}
	for _, key := range []string{"", strings.Repeat("k", storage.MaxKey+1)} {
		if _, err := s.Get(ctx, alpha, key); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("get of a key of %d bytes: %v", len(key), err)
		}
	}
	if _, err := s.Objects(ctx, "a/b", "", 1); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("objects of an invalid class: %v", err)
	}
	longest := storage.ID{Class: strings.Repeat("c", storage.MaxClass), Name: strings.Repeat("é", storage.MaxName/2)}
	commit(t, s, put(longest, claim(t, s, longest), "\x00\xff", "v"))
	wantRows(t, s, longest, "\x00\xff=v")
}

func testRange(t *testing.T, s storage.Store) {
	epoch := claim(t, s, alpha)
	keys := []string{"\x00", "a", "a\x00", "a/", "a/1", "a/2", "a/2\x00", "a/\xff", "a0", "b", "\xff", "\xff\xff"}
	b := &storage.Batch{ID: alpha, Epoch: epoch, Alarm: &storage.Alarm{At: noon}}
	for _, k := range keys {
		b.Puts = append(b.Puts, storage.Entry{Key: k, Value: []byte(k)})
	}
	commit(t, s, b)
	pick := []string{"", "\x00", "a", "a/", "a/1", "a/2", "a/9", "a0", "b", "c", "\xff", "\xff\xff", "\xff\xff\xff"}
	for _, prefix := range pick {
		for _, start := range pick {
			for _, end := range pick {
				for _, after := range []bool{false, true} {
					r := storage.Range{Prefix: prefix, End: end}
					if after {
						r.After = start
					} else {
						r.Start = start
					}
					var want []string
					for _, k := range keys {
						if r.Holds(k) {
							want = append(want, k)
						}
					}
					for _, limit := range []int{0, 1, 3} {
						for _, reverse := range []bool{false, true} {
							r.Limit, r.Reverse = limit, reverse
							want := slices.Clone(want)
							if reverse {
								slices.Reverse(want)
							}
							if limit > 0 && len(want) > limit {
								want = want[:limit]
							}
							var got []string
							for e, err := range s.List(context.Background(), alpha, r) {
								if err != nil || e.Key != string(e.Value) {
									t.Fatalf("%+v: %q, %v", r, e, err)
								}
								got = append(got, e.Key)
							}
							if !slices.Equal(got, want) {
								t.Fatalf("%+v: got %q, want %q", r, got, want)
							}
						}
					}
				}
			}
		}
	}
	n := 0
	for range s.List(context.Background(), alpha, storage.Range{}) {
		if n++; n == 2 {
			break
		}
	}
}

func testObjects(t *testing.T, s storage.Store) {
	ctx := context.Background()
	var want []string
	for i := range 12 {
		id := storage.ID{Class: "c", Name: fmt.Sprintf("n%02d", i)}
		b := put(id, claim(t, s, id), "a", "1", "b", "2", "c", "3")
		if i == 5 {
			b = alarmAt(id, b.Epoch, noon) // only an alarm
		}
		commit(t, s, b)
		if i == 7 {
			commit(t, s, &storage.Batch{ID: id, Epoch: b.Epoch, Clear: true})
			continue
		}
		want = append(want, id.Name)
	}
	for _, other := range []string{"b", "c-", "cc", "d"} {
		id := storage.ID{Class: other, Name: "n03"}
		commit(t, s, put(id, claim(t, s, id), "a", "1"))
	}
	claim(t, s, storage.ID{Class: "c", Name: "n99"}) // claimed, and has no rows
	for _, size := range []int{1, 3, 100} {
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			page, err := s.Objects(ctx, "c", after, size)
			if err != nil || len(page) > size || len(got) > len(want) {
				t.Fatalf("%v, %v, after %v", page, err, got)
			}
			if len(page) == 0 {
				break
			}
			for _, id := range page {
				got = append(got, id.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", size, got, want)
		}
	}
	if got, err := s.Objects(ctx, "c", "n03x", 1); err != nil || len(got) != 1 || got[0].Name != "n04" {
		t.Errorf("after a name that is not there: %v, %v", got, err)
	}
	if got, err := s.Objects(ctx, "c", "", 0); err != nil || len(got) != 0 {
		t.Errorf("at most none: %v, %v", got, err)
	}
}

func testContext(t *testing.T, s storage.Store) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, errGet := s.Get(ctx, alpha, "k")
	_, errAlarm := s.Alarm(ctx, alpha)
	_, errDue := s.Due(ctx, storage.Cursor{}, noon, 1)
	_, errObjects := s.Objects(ctx, "c", "", 1)
	var errList error
	for _, err := range s.List(ctx, alpha, storage.Range{}) {
		errList = err
	}
	for i, err := range []error{errGet, errAlarm, errDue, errObjects, errList} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
}
