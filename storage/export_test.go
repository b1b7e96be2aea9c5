package storage_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kalpahost/kalpa/storage"
)

func put(t interface{ Fatal(...any) }, s storage.Store, b *storage.Batch, replace bool) {
	if err := storage.Import(context.Background(), s, b, replace); err != nil {
		t.Fatal(err)
	}
}

func exported(t interface{ Fatal(...any) }, s storage.Store, id storage.ID) string {
	var w bytes.Buffer
	if err := storage.Export(context.Background(), s, id, &w); err != nil {
		t.Fatal(err)
	}
	return w.String()
}

// What was exported and imported is what it was, byte for byte.
func TestExportIsImportedAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		here, there := storage.NewMemory(), storage.NewMemory()
		defer here.Close()
		defer there.Close()
		id := storage.ID{Class: "c", Name: "né"}
		b := &storage.Batch{ID: id, Puts: []storage.Entry{{Key: "k", Value: []byte{}}}}
		for k, v := range rapid.MapOf(rapid.StringN(1, 20, 80), rapid.SliceOf(rapid.Byte())).Draw(t, "rows") {
			if k != "k" {
				b.Puts = append(b.Puts, storage.Entry{Key: k, Value: v})
			}
		}
		b.Puts = append(b.Puts, storage.Entry{Key: "\x00\xff", Value: []byte("<&>\u2028\x00")})
		if rapid.Bool().Draw(t, "alarm") {
			b.Alarm = &storage.Alarm{At: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "at"), 1000).UTC(), Retry: rapid.IntRange(0, 6).Draw(t, "retry")}
			if b.Alarm.Retry > 0 {
				b.Alarm.Set = b.Alarm.At.Add(-time.Minute)
			}
		}
		var alarm storage.Alarm
		if b.Alarm != nil {
			alarm = *b.Alarm
		}
		put(t, here, b, false)
		text := exported(t, here, id)
		read, err := storage.ReadExport(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		put(t, there, read, false)
		if d := cmp.Diff(text, exported(t, there, id)); d != "" {
			t.Fatal(d)
		}
		if got, err := there.Alarm(context.Background(), id); err != nil || got != alarm {
			t.Fatalf("the alarm is %v, want %v: %v", got, alarm, err)
		}
		for _, e := range b.Puts {
			if v, err := there.Get(context.Background(), id, e.Key); err != nil || v == nil || !bytes.Equal(v, e.Value) {
				t.Fatalf("%q is %q, want %q: %v", e.Key, v, e.Value, err)
			}
		}
	})
}

const sample = `{"kalpa":"object","version":1,"class":"counter","name":"a","alarm":"2026-03-01T12:00:00Z","retry":1}
{"key":"n","value":"12"}
{"key64":"AP8=","value64":"/w=="}
{"end":true,"rows":2}
`

// The format is the one that is documented, and stays.
func TestExportFormat(t *testing.T) {
	s := storage.NewMemory()
	defer s.Close()
	b, err := storage.ReadExport(strings.NewReader(sample))
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, b, false)
	text := exported(t, s, storage.ID{Class: "counter", Name: "a"})
	lines := strings.SplitAfter(sample, "\n")
	lines[1], lines[2] = lines[2], lines[1] // by key
	if d := cmp.Diff(strings.Join(lines, ""), text); d != "" {
		t.Error(d)
	}
}

func TestWhatIsNoExportIsRefused(t *testing.T) {
	lines := strings.SplitAfter(sample, "\n")
	for name, text := range map[string]string{
		"empty":         "",
		"no JSON":       "hello",
		"cut off":       strings.Join(lines[:2], ""),
		"cut in a line": sample[:len(sample)-30],
		"a row less":    lines[0] + lines[1] + lines[3],
		"a row twice":   lines[0] + lines[1] + lines[1] + lines[3],
		"more":          sample + lines[1],
		"a new version": strings.Replace(sample, `"version":1`, `"version":2`, 1),
		"another kind":  strings.Replace(sample, `"object"`, `"store"`, 1),
		"no value":      lines[0] + `{"key":"n"}` + lines[3],
		"two keys":      strings.Replace(sample, `"key":"n"`, `"key":"n","key64":"AP8="`, 1),
		"a new field":   strings.Replace(sample, `"key":"n"`, `"key":"n","ttl":1`, 1),
	} {
		_, err := storage.ReadExport(strings.NewReader(text))
		var e *storage.Error
		if !errors.Is(err, storage.ErrFormat) || !errors.As(err, &e) || e.Op != "import" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"a bad class": strings.Replace(sample, `"counter"`, `"?"`, 1),
		"an old time": strings.Replace(sample, `"retry":1`, `"retry":-1`, 1),
		"a long key":  strings.Replace(sample, `"n"`, `"`+strings.Repeat("n", storage.MaxKey+1)+`"`, 1),
		"too much": lines[0] + strings.Repeat(`{"key":"`+strings.Repeat("n", 100)+`","value":"`+strings.Repeat("v", storage.MaxValue)+"\"}\n", 1) +
			`{"key":"2","value":"` + strings.Repeat("v", storage.MaxBatch) + "\"}\n" + lines[3],
	} {
		if _, err := storage.ReadExport(strings.NewReader(text)); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestImportReplacesOnlyWhenItIsToldTo(t *testing.T) {
	s := storage.NewMemory()
	defer s.Close()
	id := storage.ID{Class: "counter", Name: "a"}
	if err := storage.Export(context.Background(), s, id, &bytes.Buffer{}); !errors.Is(err, storage.ErrNoObject) {
		t.Errorf("nothing is exported: %v", err)
	}
	put(t, s, &storage.Batch{ID: id, Puts: []storage.Entry{{Key: "old", Value: []byte("1")}}}, false)
	b, err := storage.ReadExport(strings.NewReader(sample))
	if err != nil {
		t.Fatal(err)
	}
	if err := storage.Import(context.Background(), s, b, false); !errors.Is(err, storage.ErrExists) {
		t.Fatalf("got %v", err)
	}
	put(t, s, b, true)
	if text := exported(t, s, id); strings.Contains(text, "old") || !strings.Contains(text, `"12"`) {
		t.Errorf("left is %s", text)
	}
}
