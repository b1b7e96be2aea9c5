package storage_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kalpahost/kalpa/storage"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// The layout is what stores on disks have. A change of a line of this file is a
// change of storage.FormatVersion.
func TestKeyLayoutIsTheOneOnDisks(t *testing.T) {
	id := storage.ID{Class: "session", Name: "né"}
	at := time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC)
	var out strings.Builder
	line := func(what string, k []byte) { fmt.Fprintf(&out, "%-14s %x\n", what, k) }
	fmt.Fprintf(&out, "format %d, object %s\n", storage.FormatVersion, id)
	line("boot", storage.BootKey)
	line("format", storage.FormatKey)
	line("fence", storage.AppendFenceKey(nil, id))
	line("index", storage.AppendIndexKey(nil, at, id))
	line("index 1969", storage.AppendIndexKey(nil, time.Unix(-1, 0), id))
	line("index value", storage.AppendRetry(nil, 300))
	line("alarm", storage.AppendAlarmKey(nil, id))
	line("alarm value", storage.AppendAlarmRow(nil, storage.Alarm{At: at, Retry: 300}))
	line("alarm retried", storage.AppendAlarmRow(nil, storage.Alarm{At: at, Retry: 300, Set: at.Add(-time.Minute)}))
	line("row", storage.AppendRowKey(nil, id, "k\x00\xff"))
	line("object start", storage.AppendObjectStart(nil, id))
	line("object end", storage.AppendObjectEnd(nil, id))
	fmt.Fprintf(&out, "%-14s %x\n", "epoch", storage.MakeEpoch(3, 7))

	path := filepath.Join("testdata", "keys.txt")
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the layout is\n%s\nand stores on disks have\n%s", out.String(), want)
	}
}

var (
	classes = rapid.StringMatching(`[A-Za-z0-9_.-]{1,5}`)
	names   = rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]rune{1, 2, '/', 'a', 'b', 0x7f, 0x80, 'é', 0x10ffff}), 1, 6).Draw(t, "name"))
	})
	ids = rapid.Custom(func(t *rapid.T) storage.ID {
		return storage.ID{Class: classes.Draw(t, "class"), Name: names.Draw(t, "name")}
	})
	keys = rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 0xfe, 0xff}), 1, 6).Draw(t, "key"))
	})
	times = rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "near") {
			return time.UnixMicro(rapid.Int64Range(-3, 3).Draw(t, "micros"))
		}
		return time.UnixMicro(rapid.Int64Range(-62135596800_000000+1, 253402300799_999999).Draw(t, "micros"))
	})
)

func compareIDs(a, b storage.ID) int {
	return cmp.Or(strings.Compare(a.Class, b.Class), strings.Compare(a.Name, b.Name))
}

func TestKeysSurviveTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, key, at := ids.Draw(t, "id"), keys.Draw(t, "key"), times.Draw(t, "at")
		if err := id.Validate(); err != nil {
			t.Fatal(err)
		}
		k := storage.AppendRowKey(nil, id, key)
		if gotID, gotKey, alarm, err := storage.DecodeRowKey(k); gotID != id || gotKey != key || alarm || err != nil {
			t.Fatalf("row: %q %q %v %v", gotID, gotKey, alarm, err)
		}
		if len(k) != storage.RowKeyLen(id, key) || string(k[storage.RowOffset(id):]) != key {
			t.Fatalf("row key of %d bytes, key at %d", storage.RowKeyLen(id, key), storage.RowOffset(id))
		}
		if gotID, _, alarm, err := storage.DecodeRowKey(storage.AppendAlarmKey(nil, id)); gotID != id || !alarm || err != nil {
			t.Fatalf("alarm: %q %v %v", gotID, alarm, err)
		}
		if gotAt, gotID, err := storage.DecodeIndexKey(storage.AppendIndexKey(nil, at, id)); gotID != id || !gotAt.Equal(at) || err != nil {
			t.Fatalf("index: %v %q %v, want %v", gotAt, gotID, err, at)
		}
		a := storage.Alarm{At: at.UTC(), Retry: rapid.IntRange(0, storage.MaxRetry).Draw(t, "retry")}
		if rapid.Bool().Draw(t, "retried") {
			a.Set = times.Draw(t, "set").UTC()
		}
		if got, err := storage.DecodeAlarmRow(storage.AppendAlarmRow(nil, a)); got != a || err != nil {
			t.Fatalf("alarm row: %v %v, want %v", got, err, a)
		}
	})
}

func TestKeysOrderAsWhatTheyStandFor(t *testing.T) {
	sign := func(n int) int { return max(-1, min(1, n)) }
	rapid.Check(t, func(t *rapid.T) {
		a, b := ids.Draw(t, "a"), ids.Draw(t, "b")
		if rapid.Bool().Draw(t, "same") {
			b = a
		}
		ka, kb := keys.Draw(t, "ka"), keys.Draw(t, "kb")
		want := cmp.Or(compareIDs(a, b), strings.Compare(ka, kb))
		if got := bytes.Compare(storage.AppendRowKey(nil, a, ka), storage.AppendRowKey(nil, b, kb)); got != sign(want) {
			t.Fatalf("rows %q %q and %q %q compare as %d", a, ka, b, kb, got)
		}
		ta, tb := times.Draw(t, "ta"), times.Draw(t, "tb")
		want = cmp.Or(ta.Compare(tb), compareIDs(a, b))
		if got := bytes.Compare(storage.AppendIndexKey(nil, ta, a), storage.AppendIndexKey(nil, tb, b)); got != sign(want) {
			t.Fatalf("alarms %v %q and %v %q compare as %d", ta, a, tb, b, got)
		}
		// An object's range holds its own keys and no other object's.
		start, end := storage.AppendObjectStart(nil, a), storage.AppendObjectEnd(nil, a)
		for _, k := range [][]byte{storage.AppendRowKey(nil, b, kb), storage.AppendAlarmKey(nil, b), storage.AppendFenceKey(nil, b)} {
			inside := bytes.Compare(start, k) <= 0 && bytes.Compare(k, end) < 0
			if inside != (a == b && k[0] == start[0]) {
				t.Fatalf("key %x of %q and the range of %q: inside is %v", k, b, a, inside)
			}
		}
	})
}

func TestBoundsSelectWhatTheRangeHolds(t *testing.T) {
	some := rapid.OneOf(rapid.Just(""), keys)
	rapid.Check(t, func(t *rapid.T) {
		id, key := ids.Draw(t, "id"), keys.Draw(t, "key")
		r := storage.Range{Prefix: some.Draw(t, "prefix"), End: some.Draw(t, "end")}
		if rapid.Bool().Draw(t, "exclusive") {
			r.After = some.Draw(t, "after")
		} else {
			r.Start = some.Draw(t, "start")
		}
		lower, upper := storage.RowBounds(id, r)
		k := storage.AppendRowKey(nil, id, key)
		if inside := bytes.Compare(lower, k) <= 0 && bytes.Compare(k, upper) < 0; inside != r.Holds(key) {
			t.Fatalf("%+v and the key %q: inside is %v", r, key, inside)
		}
	})
}

func TestMalformedKeysAndRowsAreRefused(t *testing.T) {
	id := storage.ID{Class: "c", Name: "n"}
	good := [][]byte{storage.AppendRowKey(nil, id, "k"), storage.AppendAlarmKey(nil, id), storage.AppendIndexKey(nil, time.Unix(0, 0), id)}
	for _, k := range append(good, nil, []byte{4}, []byte("\x04c\x00n\x00"), []byte("\x04c\x00n\x00\x01"), []byte("\x04c\x00n\x00\x02k"), []byte("\x04c")) {
		for n := range len(k) {
			if _, _, _, err := storage.DecodeRowKey(k[:n]); err == nil && !bytes.Equal(k[:n], good[1]) {
				t.Errorf("%q is read as a row's key", k[:n])
			}
			if _, _, err := storage.DecodeIndexKey(k[:n]); err == nil {
				t.Errorf("%q is read as a key of the index", k[:n])
			}
		}
	}
	for _, v := range []string{"", "12345678", "12345678\x80", "12345678\x01\x01", "12345678\x011234567", "12345678\x01123456789", "12345678\x8012345678", "12345678\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if a, err := storage.DecodeAlarmRow([]byte(v)); err == nil {
			t.Errorf("%q is read as %v", v, a)
		}
	}
}
