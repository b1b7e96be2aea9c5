package actor

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kalpahost/kalpa/storage"
)

// A batch holds for each key what was done to it last, however many there are.
func TestBatchHoldsTheLastWriteOfEachKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turn := &Turn{inc: &incarnation{h: &Host{o: Options{DirtyLimit: 1 << 20}}, id: storage.ID{Class: "c", Name: "n"}}}
		model := map[string]string{}
		keys := rapid.IntRange(1, 3*fewPuts).Draw(t, "keys")
		for i := range rapid.IntRange(1, 150).Draw(t, "writes") {
			k := fmt.Sprint(rapid.IntRange(0, keys-1).Draw(t, "key"))
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				turn.Delete(k)
				delete(model, k)
			} else {
				turn.Put(k, []byte(fmt.Sprint(i)))
				model[k] = fmt.Sprint(i)
			}
		}
		got := map[string]string{}
		for _, e := range turn.batch.Puts {
			if _, twice := got[e.Key]; twice {
				t.Fatalf("%q is put twice", e.Key)
			}
			got[e.Key] = string(e.Value)
		}
		if d := cmp.Diff(model, got); d != "" {
			t.Fatal(d)
		}
	})
}
