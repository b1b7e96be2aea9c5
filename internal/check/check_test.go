package check_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/check"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

var silent = slog.New(slog.DiscardHandler)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill makes a store of 300 counters, half of them with an alarm, in tables.
func fill(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	s, err := pebble.Open(pebble.Options{Dir: dir, Logger: silent})
	must(t, err)
	for i := range 300 {
		b := &storage.Batch{ID: storage.ID{Class: "counter", Name: fmt.Sprintf("n%03d", i)}, Puts: []storage.Entry{{Key: "n", Value: []byte(strings.Repeat(fmt.Sprint(i), 100))}}}
		if i%2 == 0 {
			b.Alarm = &storage.Alarm{At: time.Unix(int64(2e9+i), 0)}
		}
		commit(t, s, b)
	}
	must(t, s.Close())
	for range 2 { // what is in the log when a store is opened becomes a table
		s, err = pebble.Open(pebble.Options{Dir: dir, Logger: silent})
		must(t, err)
		must(t, s.Close())
	}
	return dir
}

func commit(t *testing.T, s storage.Store, b *storage.Batch) {
	t.Helper()
	epoch, err := storage.Claim(t.Context(), s, b.ID)
	must(t, err)
	defer s.Release(b.ID, epoch)
	b.Epoch = epoch
	must(t, storage.Commit(t.Context(), s, b))
}

func checked(t *testing.T, dir string) *check.Report {
	t.Helper()
	r, err := check.Check(t.Context(), dir)
	must(t, err)
	return r
}

func text(r *check.Report) string {
	var s strings.Builder
	r.Text(&s)
	return s.String()
}

// has tells whether a finding says something.
func has(r *check.Report, severity storage.Severity, words ...string) bool {
	for _, f := range r.Findings {
		all := f.Severity == severity
		for _, word := range words {
			all = all && strings.Contains(f.About+": "+f.What+" / "+f.Lost+" / "+f.Do, word)
		}
		if all {
			return true
		}
	}
	return false
}

func TestAStoreThatIsAsItShouldBe(t *testing.T) {
	t.Parallel()
	r := checked(t, fill(t))
	if r.Damaged || len(r.Findings) != 0 || r.Objects["counter"] != 300 || r.Alarms != 150 || r.Boot != 3 || r.Tables == 0 || r.Rows != 300+300+150+150+2 {
		t.Error(text(r))
	}
}

// Where the rows about the store itself are damaged no host starts, and the report is of the
// whole store all the same.
func TestDamageOfTheStoresOwnRowsIsExplained(t *testing.T) {
	t.Parallel()
	dir := fill(t)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	must(t, err)
	for _, name := range tables {
		b, err := os.ReadFile(name)
		must(t, err)
		b[20] ^= 1 // in the first block
		must(t, os.WriteFile(name, b, 0o600))
	}
	_, err = pebble.Open(pebble.Options{Dir: dir, Logger: silent})
	e, ok := errors.AsType[*storage.Error](err)
	if !errors.Is(err, storage.ErrDamaged) || !ok || !strings.Contains(e.Hint, "kalpa check") || strings.Contains(err.Error(), "\n") {
		t.Errorf("it was opened: %v", err)
	}
	r := checked(t, dir)
	if !r.Damaged || !r.Readable || !has(r, storage.Damage, "the store: ", "no host starts") || !has(r, storage.Damage, filepath.Base(tables[0]), "not what was written") || has(r, storage.Damage, "the store knows of 0") {
		t.Error(text(r))
	}
	for _, f := range r.Findings {
		if strings.Contains(f.What, "\n") || strings.Contains(f.What, "000000") {
			t.Errorf("a finding is more than a line, or names no file: %q", f.What)
		}
	}
	if r.Objects["counter"] < 100 {
		t.Errorf("objects in blocks that are as they were: %s", text(r))
	}
}

// A flipped bit in a table takes some objects, and the report names them.
func TestAFlippedBitIsFoundAndItsObjectsAreNamed(t *testing.T) {
	t.Parallel()
	dir := fill(t)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	must(t, err)
	largest, size := "", int64(0)
	for _, name := range tables {
		info, err := os.Stat(name)
		must(t, err)
		if info.Size() > size {
			largest, size = name, info.Size()
		}
	}
	b, err := os.ReadFile(largest)
	must(t, err)
	b[len(b)/2] ^= 1
	must(t, os.WriteFile(largest, b, 0o600))
	r := checked(t, dir)
	if !r.Damaged || !r.Readable || !has(r, storage.Damage, filepath.Base(largest), "not what was written") || !has(r, storage.Damage, "object counter/n", "can be read", "restore a backup") {
		t.Error(text(r))
	}
	for _, f := range r.Findings {
		if strings.Contains(f.What, "\n") {
			t.Errorf("a finding is more than a line: %q", f.What)
		}
	}
	if n := r.Objects["counter"]; n < 200 || n >= 300 {
		t.Errorf("%d objects could be read", n)
	}
}

func TestFilesThatAreGoneOrCutAreExplained(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		keep    int // percent of the file; -1: it goes
		words   []string
	}{
		{"MANIFEST-*", 50, []string{"MANIFEST-", "had", "restore a backup"}},
		{"MANIFEST-*", -1, []string{"MANIFEST-", "is gone", "restore a backup"}},
		{"*.log", 50, []string{".log", "had", "acknowledged", "kalpa-witness"}},
		{"*.log", -1, []string{".log", "is gone", "acknowledged"}},
		{"*.sst", -1, []string{"the table", ".sst: ", "is gone", "restore a backup"}},
		{"*.sst", 50, []string{"the table", ".sst: ", "size mismatch", "restore a backup"}},
		{"marker.format*", -1, []string{"marker.format", "brought back"}},
		{"marker.manifest*", -1, []string{"marker.manifest", "brought back"}},
		{"kalpa-store", -1, []string{"kalpa-store", "brought back"}},
	} {
		dir := fill(t)
		found, err := filepath.Glob(filepath.Join(dir, c.pattern))
		must(t, err)
		name := found[len(found)-1]
		if c.keep < 0 {
			must(t, os.Remove(name))
		} else {
			b, err := os.ReadFile(name)
			must(t, err)
			must(t, os.WriteFile(name, b[:len(b)*c.keep/100], 0o600))
		}
		if r := checked(t, dir); !r.Damaged || !has(r, storage.Damage, c.words...) {
			t.Errorf("%s to %d%%:\n%s", c.pattern, c.keep, text(r))
		}
	}
}

// With another manifest than there was, what the engine would read is not the store: to
// tell what is missing of that would lead whoever acts on it to lose what is there.
func TestADamagedManifestIsAllThatIsTold(t *testing.T) {
	t.Parallel()
	dir := fill(t)
	found, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	must(t, err)
	b, err := os.ReadFile(found[0])
	must(t, err)
	for at := range b {
		b[at] ^= 1
		must(t, os.WriteFile(found[0], b, 0o600))
		b[at] ^= 1
		r := checked(t, dir)
		if !r.Damaged || r.Readable || len(r.Findings) != 1 || !has(r, storage.Damage, "MANIFEST-", "bytes in it have changed", "none of its rows were looked at", "restore a backup") {
			t.Fatalf("byte %d:\n%s", at, text(r))
		}
	}
}

// The witness is a second look: one that says nothing is told of, and the store is whole. A
// folder without one is that of somebody who has gone on without what was lost.
func TestAWitnessThatSaysNothingIsTold(t *testing.T) {
	t.Parallel()
	for what, written := range map[string]string{"empty": "", "no text": "\x00\xff\x00", "of one line": "closed\n", "nobody's": "hello there\n"} {
		dir := fill(t)
		must(t, os.WriteFile(filepath.Join(dir, "kalpa-witness"), []byte(written), 0o600))
		if r := checked(t, dir); r.Damaged || r.Objects["counter"] != 300 || len(r.Findings) != 1 || !has(r, storage.Warning, "kalpa-witness", "can't be compared", "log", "writes this one anew") {
			t.Errorf("%s:\n%s", what, text(r))
		}
	}
	dir := fill(t)
	must(t, os.Remove(filepath.Join(dir, "kalpa-witness")))
	if r := checked(t, dir); len(r.Findings) != 0 {
		t.Errorf("none:\n%s", text(r))
	}
}

// Rows that do not decode, or do not agree with each other, each by itself.
func TestRowsThatDoNotAgree(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := pebble.Open(pebble.Options{Dir: dir, Logger: silent})
	must(t, err)
	put := func(class, name string, rows ...string) {
		b := &storage.Batch{ID: storage.ID{Class: class, Name: name}}
		for i := 0; i < len(rows); i += 2 {
			b.Puts = append(b.Puts, storage.Entry{Key: rows[i], Value: []byte(rows[i+1])})
		}
		commit(t, s, b)
	}
	meta := `{"server":"demo","principal":{},"created":"2026-01-01T00:00:00Z","version":"2025-06-18"}`
	owed := `{"id":"7","method":"tools/call","epoch":1,"gen":1,"at":"2026-01-01T00:00:00Z"}`
	put(session.Class, "fine", "meta", meta, "act", `"2026-01-01T00:00:00Z"`, "s/px", `{}`, "q/px/000", owed, "st/\x00any", "\xff")
	put(session.Class, "nometa", "act", `"2026-01-01T00:00:00Z"`)
	put(session.Class, "badmeta", "meta", "{")
	put(session.Class, "badowed", "meta", meta, "q/px/000", "{")
	put(session.Class, "nostream", "meta", meta, "q/px/000", owed, "e/py/0000000000000100000001", `{"jsonrpc":"2.0","method":"x"}`)
	put(session.Class, "done", "meta", meta, "s/px", `{"done":true}`, "q/px/000", owed)
	put(session.Class, "badevent", "meta", meta, "s/px", `{}`, "e/px/zz", "{}", "e/px/0000000000000100000001", "]")
	put("c", "schedule", "\x00schedule/e/one", "{")
	put("c", "payload", "\x00schedule/e/two", `{"v":1,"callback":"x","kind":"moment","spec":"2033-01-01T00:00:00Z","due":"2033-01-01T00:00:00Z","next":"2033-01-01T00:00:00Z","sized":true,"policy":{"attempts":3,"base":1000000000,"limit":60000000000}}`)
	must(t, s.Close())
	r := checked(t, dir)
	for _, want := range []struct {
		severity storage.Severity
		words    string
	}{
		{storage.Damage, "session nometa: |not the first one|kalpa objects delete mcp-session nometa"},
		{storage.Damage, `session badmeta: |"meta" does not decode|can't use it`},
		{storage.Damage, `session badowed: |"q/px/000" does not decode|never answered`},
		{storage.Warning, "session nostream: |the request 7 is owed on the stream px"},
		{storage.Warning, "session nostream: |the stream py has 1 events"},
		{storage.Damage, "session done: |marked as delivered"},
		{storage.Damage, `session badevent: |"e/px/zz" does not decode`},
		{storage.Damage, `session badevent: |"e/px/0000000000000100000001" does not decode`},
		{storage.Damage, "object c/schedule: |schedule|does not decode"},
		{storage.Damage, `object c/payload: |payload of the schedule "two" is gone`},
	} {
		if !has(r, want.severity, strings.Split(want.words, "|")...) {
			t.Errorf("no %s %s", want.severity, want.words)
		}
	}
	if has(r, storage.Damage, "session fine") || has(r, storage.Warning, "session fine") || r.Owed != 3 {
		t.Error(text(r))
	}
	if t.Failed() {
		t.Log(text(r))
	}
}

func TestWhatCantBeLookedAt(t *testing.T) {
	t.Parallel()
	if _, err := check.Check(context.Background(), filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "no kalpa store") {
		t.Error(err)
	}
}
