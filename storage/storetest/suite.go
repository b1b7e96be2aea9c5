package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kalpahost/kalpa/storage"
)

// Run runs the suite; fresh makes an empty store for each test.
func Run(t *testing.T, fresh func(t *testing.T) storage.Store) {
	tests := []struct {
		name string
		test func(t *testing.T, s storage.Store)
	}{
		{"a batch lands as a whole", testBatch},
		{"a batch is applied in the order clear, deletes, puts, alarm", testBatchOrder},
		{"an older incarnation is refused (I4)", testStale},
		{"a release ends an incarnation", testRelease},
		{"a release by an older incarnation does nothing", testReleaseOld},
		{"epochs grow and fit into a JSON number (I4)", testEpochs},
		{"callbacks run in order and once", testOrder},
		{"a claim is answered after what was submitted before", testClaimOrder},
		{"an invalid batch is refused, and what is behind it", testInvalid},
		{"an invalid ID or key is refused everywhere", testInvalidReads},
		{"a clear leaves neither rows nor alarm nor neighbours", testClear},
		{"objects of every size are cleared, also right after a write", testClearSizes},
		{"ranges", testRange},
		{"the alarm moves with its index", testAlarm},
		{"due pages by cursor", testDuePages},
		{"due after alarms moved to the front", testDueFront},
		{"the observer hears of each alarm, after due and before done", testObserver},
		{"alarms are rounded up", testAlarmRounding},
		{"objects are listed by name, each once", testObjects},
		{"a value is empty, not nil, when it is there", testEmptyValue},
		{"after close everything fails", testClosed},
		{"close waits for what was submitted", testCloseDrains},
		{"a cancelled context stops reads", testContext},
		{"many objects at once", testConcurrent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := fresh(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil && !errors.Is(err, storage.ErrClosed) {
					t.Errorf("close: %v", err)
				}
			})
			tt.test(t, s)
		})
	}
}

var (
	alpha = storage.ID{Class: "session", Name: "alpha"}
	beta  = storage.ID{Class: "session", Name: "beta"}
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func claim(t *testing.T, s storage.Store, id storage.ID) uint64 {
	t.Helper()
	epoch, err := storage.Claim(context.Background(), s, id)
	if err != nil {
		t.Fatalf("claim %v: %v", id, err)
	}
	return epoch
}

func commit(t *testing.T, s storage.Store, b *storage.Batch) {
	t.Helper()
	if err := storage.Commit(context.Background(), s, b); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func put(id storage.ID, epoch uint64, kv ...string) *storage.Batch {
	b := &storage.Batch{ID: id, Epoch: epoch}
	for i := 0; i < len(kv); i += 2 {
		b.Puts = append(b.Puts, storage.Entry{Key: kv[i], Value: []byte(kv[i+1])})
	}
	return b
}

func alarmAt(id storage.ID, epoch uint64, at time.Time) *storage.Batch {
	return &storage.Batch{ID: id, Epoch: epoch, Alarm: &storage.Alarm{At: at}}
}

// rows renders the rows of a range as "k=v k=v".
func rows(t *testing.T, s storage.Store, id storage.ID, r storage.Range) string {
	t.Helper()
	var out []string
	for e, err := range s.List(context.Background(), id, r) {
		if err != nil {
			t.Fatalf("list %v: %v", id, err)
		}
		out = append(out, e.Key+"="+string(e.Value))
	}
	return strings.Join(out, " ")
}

func wantRows(t *testing.T, s storage.Store, id storage.ID, want string) {
	t.Helper()
	if got := rows(t, s, id, storage.Range{}); got != want {
		t.Errorf("rows of %v: %q, want %q", id, got, want)
	}
}

func due(t *testing.T, s storage.Store, after storage.Cursor, until time.Time, limit int) []storage.Due {
	t.Helper()
	d, err := s.Due(context.Background(), after, until, limit)
	if err != nil {
		t.Fatalf("due: %v", err)
	}
	return d
}

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

func testStale(t *testing.T, s storage.Store) {
	old := claim(t, s, alpha)
	commit(t, s, put(alpha, old, "a", "old"))
	newer := claim(t, s, alpha)
	if newer <= old {
		t.Fatalf("epoch %d after %d", newer, old)
	}
	for _, epoch := range []uint64{old, 0, newer + 1} {
		err := storage.Commit(context.Background(), s, put(alpha, epoch, "a", "stale"))
		var e *storage.Error
		if !errors.Is(err, storage.ErrStaleEpoch) || !errors.As(err, &e) || e.ID != alpha {
			t.Errorf("commit at epoch %d, newest is %d: %v", epoch, newer, err)
		}
	}
	err := storage.Commit(context.Background(), s, put(beta, newer, "a", "unclaimed"))
	if !errors.Is(err, storage.ErrStaleEpoch) {
		t.Errorf("commit to an object that is not claimed: %v", err)
	}
	wantRows(t, s, alpha, "a=old")
	commit(t, s, put(alpha, newer, "a", "new"))
	wantRows(t, s, alpha, "a=new")
	wantRows(t, s, beta, "")
}

func testRelease(t *testing.T, s storage.Store) {
	epoch := claim(t, s, alpha)
	commit(t, s, put(alpha, epoch, "a", "1"))
	s.Release(alpha, epoch)
	err := storage.Commit(context.Background(), s, put(alpha, epoch, "a", "2"))
	if !errors.Is(err, storage.ErrStaleEpoch) {
		t.Errorf("commit after the release: %v", err)
	}
	wantRows(t, s, alpha, "a=1")
	if next := claim(t, s, alpha); next <= epoch {
		t.Errorf("epoch %d after %d", next, epoch)
	}
}

func testReleaseOld(t *testing.T, s storage.Store) {
	old := claim(t, s, alpha)
	newer := claim(t, s, alpha)
	s.Release(alpha, old)
	s.Release(beta, old)
	commit(t, s, put(alpha, newer, "a", "1"))
	wantRows(t, s, alpha, "a=1")
}

func testEpochs(t *testing.T, s storage.Store) {
	last := uint64(0)
	for i := range 50 {
		id := storage.ID{Class: "c", Name: fmt.Sprint(i % 3)}
		epoch := claim(t, s, id)
		if epoch <= last || epoch >= 1<<53 {
			t.Fatalf("epoch %d after %d", epoch, last)
		}
		if i%2 == 0 {
			commit(t, s, put(id, epoch, "k", "v"))
		}
		last = epoch
	}
}

func testOrder(t *testing.T, s storage.Store) {
	const n = 500
	a, b := claim(t, s, alpha), claim(t, s, beta)
	var mu sync.Mutex
	var got []int
	var wg sync.WaitGroup
	wg.Add(n)
	mu.Lock() // a callback must not run inside Submit
	for i := range n {
		note := func() {
			mu.Lock()
			got = append(got, i)
			mu.Unlock()
			wg.Done()
		}
		switch i % 5 {
		case 0:
			s.Submit(put(beta, b, "k", fmt.Sprint(i)), func(error) { note() })
		case 1:
			s.Submit(put(alpha, a-1, "k", "stale"), func(err error) {
				if !errors.Is(err, storage.ErrStaleEpoch) {
					t.Errorf("a stale batch: %v", err)
				}
				note()
			})
		case 2:
			s.Claim(storage.ID{Class: "other", Name: fmt.Sprint(i)}, func(uint64, error) { note() })
		default:
			s.Submit(put(alpha, a, "k", fmt.Sprint(i)), func(err error) {
				if err != nil {
					t.Error(err)
				}
				note()
			})
		}
	}
	mu.Unlock()
	wg.Wait()
	if !slices.IsSorted(got) || len(got) != n {
		t.Errorf("callbacks ran in the order %v", got)
	}
	wantRows(t, s, alpha, "k=499")
}

func testClaimOrder(t *testing.T, s storage.Store) {
	epoch := claim(t, s, alpha)
	for i := range 100 {
		s.Submit(put(alpha, epoch, "k", fmt.Sprint(i)), func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	b := alarmAt(alpha, epoch, noon)
	s.Submit(b, func(error) {})
	newer := claim(t, s, alpha)
	wantRows(t, s, alpha, "k=99")
	// The new incarnation knows the alarm that the old one left.
	commit(t, s, alarmAt(alpha, newer, noon.Add(time.Hour)))
	if d := due(t, s, storage.Cursor{}, noon.Add(time.Hour), 9); len(d) != 1 || !d[0].At.Equal(noon.Add(time.Hour)) {
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
	commit(t, s, alarmAt(alpha, a, zone))
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
			if len(page) > size {
				t.Fatalf("%d rows, at most %d were wanted", len(page), size)
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
			if err != nil || len(page) > size {
				t.Fatalf("%v, %v", page, err)
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

func testClosed(t *testing.T, s storage.Store) {
	ctx := context.Background()
	epoch := claim(t, s, alpha)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, errGet := s.Get(ctx, alpha, "k")
	_, errAlarm := s.Alarm(ctx, alpha)
	_, errDue := s.Due(ctx, storage.Cursor{}, noon, 1)
	_, errObjects := s.Objects(ctx, "c", "", 1)
	_, errClaim := storage.Claim(ctx, s, alpha)
	var errList error
	for _, err := range s.List(ctx, alpha, storage.Range{}) {
		errList = err
	}
	errCommit := storage.Commit(ctx, s, put(alpha, epoch, "k", "v"))
	for i, err := range []error{errGet, errAlarm, errDue, errObjects, errClaim, errList, errCommit, s.Close()} {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	s.Release(alpha, epoch)
}

func testCloseDrains(t *testing.T, s storage.Store) {
	epoch := claim(t, s, alpha)
	var mu sync.Mutex
	done := 0
	for i := range 200 {
		s.Submit(put(alpha, epoch, fmt.Sprint(i), "v"), func(err error) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			done++
			mu.Unlock()
		})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if done != 200 {
		t.Errorf("%d of 200 batches were answered", done)
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

func testConcurrent(t *testing.T, s storage.Store) {
	const objects, turns = 16, 40
	var wg sync.WaitGroup
	for o := range objects {
		wg.Go(func() {
			id := storage.ID{Class: "c", Name: fmt.Sprint(o)}
			for i := range turns {
				epoch := claim(t, s, id)
				want := bytes.Repeat([]byte{byte(i)}, 100)
				b := &storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: "k", Value: want}}, Alarm: &storage.Alarm{At: noon.Add(time.Duration(i) * time.Second)}}
				commit(t, s, b)
				if v, err := s.Get(context.Background(), id, "k"); err != nil || !bytes.Equal(v, want) {
					t.Errorf("%v after turn %d: %v, %v", id, i, v, err)
				}
				if _, err := s.Due(context.Background(), storage.Cursor{}, noon.Add(time.Hour), 5); err != nil {
					t.Error(err)
				}
				if i%3 == 0 {
					s.Release(id, epoch)
				}
			}
		})
	}
	wg.Wait()
	if d := due(t, s, storage.Cursor{}, noon.Add(time.Hour), 100); len(d) != objects {
		t.Errorf("%d alarms of %d objects", len(d), objects)
	}
}
