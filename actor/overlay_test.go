package actor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kalpahost/kalpa/storage"
)

// An object sees its own writes, whatever part of them the store has applied.
func TestOverlayShowsWhatTheStoreWillHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := storage.ID{Class: "c", Name: "n"}
		store := storage.NewMemory()
		defer store.Close()
		epoch, err := storage.Claim(context.Background(), store, id)
		if err != nil {
			t.Fatal(err)
		}
		model := map[string]string{}
		var batches []*storage.Batch
		n := rapid.IntRange(1, 5).Draw(t, "batches")
		applied := rapid.IntRange(0, n).Draw(t, "applied")
		key := rapid.SampledFrom([]string{"a", "b", "b/1", "b/2", "c", "d"})
		var grown *overlay
		for i := range n {
			b := &storage.Batch{ID: id, Epoch: epoch}
			if rapid.IntRange(0, 5).Draw(t, "clear") == 0 {
				b.Clear = true
				clear(model)
			}
			for range rapid.IntRange(0, 3).Draw(t, "deletes") {
				k := key.Draw(t, "key")
				b.Deletes = append(b.Deletes, k)
				delete(model, k)
			}
			for j := range rapid.IntRange(0, 3).Draw(t, "puts") {
				k, v := key.Draw(t, "key"), fmt.Sprint(i, j)
				if !slices.ContainsFunc(b.Puts, func(e storage.Entry) bool { return e.Key == k }) {
					b.Puts = append(b.Puts, storage.Entry{Key: k, Value: []byte(v)})
					model[k] = v
				}
			}
			if i < applied {
				if err := storage.Commit(context.Background(), store, b); err != nil {
					t.Fatal(err)
				}
				continue
			}
			batches = append(batches, b)
		}
		grown = overlayOf(batches, applied == 0 && rapid.Bool().Draw(t, "fresh"))
		// The turn that reads goes on to write.
		if grown != nil && rapid.Bool().Draw(t, "more") {
			k := key.Draw(t, "key")
			grown.put(k, []byte("last"))
			model[k] = "last"
			k = key.Draw(t, "key")
			grown.delete(k)
			delete(model, k)
		}
		r := storage.Range{Reverse: rapid.Bool().Draw(t, "reverse"), Limit: rapid.IntRange(0, 4).Draw(t, "limit")}
		switch rapid.IntRange(0, 3).Draw(t, "range") {
		case 1:
			r.Prefix = "b"
		case 2:
			r.After = "b"
		case 3:
			r.Start, r.End = "b", "d"
		}
		var want []string
		for k, v := range model {
			if r.Holds(k) {
				want = append(want, k+"\x00"+v)
			}
		}
		slices.Sort(want)
		if r.Reverse {
			slices.Reverse(want)
		}
		if r.Limit > 0 && len(want) > r.Limit {
			want = want[:r.Limit]
		}
		// What is written in the loop is not listed by it.
		var during *overlay
		if grown != nil {
			during = &overlay{cleared: grown.cleared, rows: maps.Clone(grown.rows)}
		}
		var got []string
		for e, err := range during.list(context.Background(), store, id, r) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Key+"\x00"+string(e.Value))
			during.put(e.Key, []byte("written in the loop"))
			during.put(e.Key+"/next", []byte("likewise"))
			during.delete(key.Draw(t, "key"))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: got %q, want %q", r, got, want)
		}
		for _, k := range []string{"a", "b", "b/1", "c"} {
			v, err := grown.get(context.Background(), store, id, k)
			if err != nil {
				t.Fatal(err)
			}
			if m, ok := model[k]; ok != (v != nil) || m != string(v) {
				t.Fatalf("%s: got %q, want %q %v", k, v, m, ok)
			}
		}
	})
}
