package actor_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

func TestUniqueIDsParseBackForTheirClassOnly(t *testing.T) {
	h := start(t, actor.Options{})
	seen := map[storage.ID]bool{}
	for range 100 {
		made, err := h.NewID("counter")
		if err != nil || seen[made] {
			t.Fatalf("%v is made twice, or not: %v", made, err)
		}
		seen[made] = true
		if b, err := hex.DecodeString(made.Name); err != nil || len(b) != 32 {
			t.Fatalf("%q is not 64 hex digits", made.Name)
		}
		for _, text := range []string{made.Name, strings.ToUpper(made.Name)} {
			if parsed, err := actor.ParseID("counter", text); err != nil || parsed != made {
				t.Fatalf("%q is parsed as %v: %v", text, parsed, err)
			}
		}
		if _, err := actor.ParseID("register", made.Name); !errors.Is(err, actor.ErrOtherID) {
			t.Fatalf("another class takes it: %v", err)
		}
		wrong := []byte(made.Name)
		wrong[0] ^= 1
		if _, err := actor.ParseID("counter", string(wrong)); err == nil {
			t.Fatal("a wrong digit goes unnoticed")
		}
	}
}

func TestWhatIsNoIDIsSaid(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		_, err := actor.ParseID("counter", text)
		var e *actor.Error
		if !errors.As(err, &e) || !errors.Is(err, actor.ErrInvalidID) || e.ID.Class != "counter" || e.Op != "parse id" || e.Hint == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestUniqueIDsComeFromTheSourceThatIsGiven(t *testing.T) {
	source := bytes.Repeat([]byte{7}, 24)
	h := start(t, actor.Options{Entropy: bytes.NewReader(source)})
	made, err := h.NewID("counter")
	if err != nil || !strings.HasPrefix(made.Name, hex.EncodeToString(source)) {
		t.Fatalf("%v %v", made, err)
	}
	var e *actor.Error
	if _, err := h.NewID("counter"); !errors.As(err, &e) {
		t.Fatalf("the source has ended, and the id is good: %v", err)
	}
	if _, err := h.NewID("nobody"); !errors.Is(err, actor.ErrNoClass) {
		t.Fatalf("got %v", err)
	}
}

func TestObjectsOfAClassAreListedByPages(t *testing.T) {
	h := start(t, actor.Options{})
	want := []string{"a", "b", "c", "d", "e"}
	for _, name := range []string{"d", "a", "c", "e", "b"} {
		do(t, h, name, incr, 1)
	}
	do(t, h, "reads only", memory, 0)
	var got []string
	for after := ""; ; {
		page, err := h.Objects(t.Context(), "counter", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range page {
			got = append(got, id.Name)
		}
		if len(page) < 2 {
			break
		}
		after = page[len(page)-1].Name
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("listed %q, want %q", got, want)
	}
	if _, err := h.Objects(t.Context(), "nobody", "", 10); !errors.Is(err, actor.ErrNoClass) {
		t.Errorf("got %v", err)
	}
	if _, err := h.Objects(t.Context(), "counter", "", 0); err == nil {
		t.Error("a page of nothing is listed")
	}
}

// An alarm wakes an object that nobody has called: it knows its name.
func TestTheNameIsKnownInAnAlarm(t *testing.T) {
	store := storage.NewMemory()
	defer store.Close()
	ch := make(chan alarm.Info, 1)
	alarms.Store("né/1", ch)
	h := start(t, actor.Options{Store: store})
	do(t, h, "né/1", setAlarm, 50)
	h.Reset(id("né/1"), actor.Aborted, nil)
	<-ch // the object has found it by its name
}
