package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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
		{"an object is fresh until something is committed to it, and never again", testFresh},
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
