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
// durable. Told of an error, it aborts the turn.
type teller struct{ told chan string }

func (m teller) Start(*actor.Turn) error { return nil }
func (m teller) Handle(t *actor.Turn, event any) {
	t.After(func() { m.told <- "durable" })
	t.Submitted(func() { m.told <- "submitted" })
	t.Put("k", []byte("v"))
	if err, aborts := event.(error); aborts {
		t.Abort(err)
	}
	m.told <- "handled"
}
func (m teller) Alarm(t *actor.Turn, _ alarm.Info, done func(*actor.Turn, error)) { done(t, nil) }
func (m teller) Idle() bool                                                       { return true }

// What a turn leaves to be done when its batch is on its way is done between its end and
// its outputs, and not at all when it leaves no trace.
func TestSubmitted(t *testing.T) {
	store := storage.NewMemory()
	defer store.Close()
	h, err := actor.NewHost(actor.Options{Store: store, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	m := teller{make(chan string, 10)}
	h.Register("teller", func() actor.Machine { return m })
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	for _, event := range []any{errors.New("no"), "go"} {
		if err := h.Send(storage.ID{Class: "teller", Name: "a"}, event, func(err error) { t.Errorf("not handled: %v", err) }); err != nil {
			t.Fatal(err)
		}
		if what := <-m.told; what != "handled" {
			t.Fatal(what)
		}
	}
	var told []string
	for len(told) < 2 {
		select {
		case what := <-m.told:
			told = append(told, what)
		case <-time.After(5 * time.Second):
			t.Fatalf("nothing more, after %v", told)
		}
	}
	if want := []string{"submitted", "durable"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}
