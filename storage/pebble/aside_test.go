package pebble_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// An entry of the alarm index that does not decode does not hold up the others
// (I6), wherever it stands and however small the pages are, and is reported once.
func TestIndexEntryThatDoesNotDecodeIsSetAside(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fs := vfs.NewMem()
	s := mustOpen(t, pebble.Options{FS: fs})
	var names []string
	for i, name := range []string{"a", "b", "c", "d"} {
		id := storage.ID{Class: "c", Name: name}
		epoch, err := storage.Claim(t.Context(), s, id)
		if err == nil {
			err = storage.Commit(t.Context(), s, &storage.Batch{ID: id, Epoch: epoch, Alarm: &storage.Alarm{At: noon.Add(time.Duration(i) * time.Second), Retry: i, Set: noon.Add(-time.Hour)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := engine.Open("data", &engine.Options{FS: fs, Logger: nothing{}})
	if err != nil {
		t.Fatal(err)
	}
	index := func(sec int, id storage.ID) []byte {
		return storage.AppendIndexKey(nil, noon.Add(time.Duration(sec)*time.Second), id)
	}
	for _, bad := range [][2][]byte{
		{{3}, {0}},                                                                // no time
		{index(-9, storage.ID{}), {0}},                                            // no object
		{append(index(1, storage.ID{}), "c"...)},                                  // half an object
		{index(1, storage.ID{Class: "c\xff", Name: "n"}), {0}},                    // a class that none can have
		{append(index(2, storage.ID{Class: "c", Name: "n"}), 'x'), {0}},           // more than an object
		{index(2, storage.ID{Class: "c", Name: "nobody"}), {0xff}},                // a count that goes on, and no row that tells it
		{bytes.Repeat([]byte{3}, 9), {0}},                                         // a time that no alarm can have
		{[]byte("\x04c\x00b"), nil},                                               // a key of no object's
		{index(9, storage.ID{Class: "c", Name: "after all"}), {0xff, 0xff, 0xff}}, // the last
	} {
		if err := db.Set(bad[0], bad[1], engine.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	// The alarm itself is the object's row: what its entry counts can be read there.
	if err := db.Set(index(2, storage.ID{Class: "c", Name: "c"}), []byte{0xff}, engine.NoSync); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Close(), fs.Remove("data/kalpa-witness")); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s = mustOpen(t, pebble.Options{FS: fs, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer s.Close()
	for size := 1; size <= len(names)+1; size++ {
		var got []string
		for after := (storage.Cursor{}); len(got) <= len(names); {
			page, err := s.Due(t.Context(), after, noon.Add(time.Hour), size)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, d := range page {
				if want := int(d.At.Sub(noon) / time.Second); d.Retry != want || !d.Set.IsZero() {
					t.Errorf("%v has %d retries, want %d, and no time set: %v", d.ID, d.Retry, want, d.Set)
				}
				got, after = append(got, d.ID.Name), storage.Cursor{At: d.At, ID: d.ID}
			}
		}
		if strings.Join(got, "") != strings.Join(names, "") {
			t.Errorf("in pages of %d: %v, want %v", size, got, names)
		}
	}
	// Neither does a key among an object's rows hold up the list of objects.
	if ids, err := s.Objects(t.Context(), "c", "", 100); err != nil || len(ids) != len(names) {
		t.Errorf("objects: %v, %v", ids, err)
	}
	if n := strings.Count(log.String(), "does not decode"); n != 9 {
		t.Errorf("%d reports, want one for each of 9:\n%s", n, &log)
	}
}

type nothing struct{}

func (nothing) Infof(string, ...any)  {}
func (nothing) Errorf(string, ...any) {}
func (nothing) Fatalf(string, ...any) {}
