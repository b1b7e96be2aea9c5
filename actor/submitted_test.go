package actor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// teller is a machine that writes a row, and tells when it is on its way and when it is
// durable. Told of an error, it aborts the turn; told so, what it has written lingers.
type teller struct{ told chan string }

type lingering struct{}

func (m teller) Start(*actor.Turn) error { return nil }
func (m teller) Handle(t *actor.Turn, event any) {
	t.After(func() { m.told <- "durable" })
	t.Submitted(func() { m.told <- "submitted" })
	t.Put("k", []byte("v"))
	if _, lingers := event.(lingering); lingers {
		t.Linger()
	}
	if err, aborts := event.(error); aborts {
		t.Abort(err)
	}
	m.told <- "handled"
}
func (m teller) Alarm(t *actor.Turn, _ alarm.Info, done func(*actor.Turn, error)) { done(t, nil) }
func (m teller) Idle() bool                                                       { return true }

// told starts a host of tellers.
func told(t *testing.T) (send func(event any), next func() string, store *storage.Memory) {
	t.Helper()
	store = storage.NewMemory()
	h, err := actor.NewHost(actor.Options{Store: store, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	m := teller{make(chan string, 10)}
	h.Register("teller", func() actor.Machine { return m })
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		store.Close()
	})
	send = func(event any) {
		if err := h.Send(storage.ID{Class: "teller", Name: "a"}, event, func(err error) { t.Errorf("not handled: %v", err) }); err != nil {
			t.Fatal(err)
		}
	}
	next = func() string {
		select {
		case what := <-m.told:
			return what
		case <-time.After(5 * time.Second):
			t.Fatal("nothing more")
			return ""
		}
	}
	return send, next, store
}

// What a turn leaves to be done when its batch is on its way is done between its end and
// its outputs, and not at all when it leaves no trace.
func TestSubmitted(t *testing.T) {
	send, next, _ := told(t)
	for _, event := range []any{errors.New("no"), "go"} {
		send(event)
		if what := next(); what != "handled" {
			t.Fatal(what)
		}
	}
	if got, want := []string{next(), next()}, []string{"submitted", "durable"}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

// What a turn has written that lingers lands with what the next one writes, and what waits
// for the two leaves in order. What comes then is on its own again.
func TestLingering(t *testing.T) {
	send, next, store := told(t)
	for _, tt := range []struct {
		events  []any
		commits uint64
		told    []string
	}{
		{[]any{lingering{}, "go"}, 1, []string{"handled", "submitted", "handled", "submitted", "durable", "durable"}},
		{[]any{lingering{}}, 1, []string{"handled", "submitted", "durable"}},
		{[]any{"go"}, 1, []string{"handled", "submitted", "durable"}},
	} {
		before := store.Stats().Commits
		for _, e := range tt.events {
			send(e)
		}
		var got []string
		for range tt.told {
			got = append(got, next())
		}
		if commits := store.Stats().Commits - before; commits != tt.commits || !slices.Equal(got, tt.told) {
			t.Errorf("%v: %d commits, told %v; want %d, %v", tt.events, commits, got, tt.commits, tt.told)
		}
	}
}
