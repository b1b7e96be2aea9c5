package actor_test

import (
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// What reaches an object after it was torn down, and before that is durable, is for
// the next one of its name: the one that ends must not write beneath the rows that it
// has deleted, nor answer with an error that somebody has to repeat.
func TestWhatComesDuringATeardownIsForTheNextOne(t *testing.T) {
	mem := storage.NewMemory()
	t.Cleanup(func() { mem.Close() })
	slow := &slowStore{Store: mem}
	p := &planned{t: t, c: clock.NewFake(morning), store: slow, id: storage.ID{Class: "planner", Name: "torn"}, planners: newPlanners()}
	p.startHost()
	t.Cleanup(p.stopHost)
	ask(p, p.try, "put old")
	ask(p, p.try, "destroy")
	before := p.h.Epoch(p.id)

	goOn := make(chan struct{})
	slow.mu.Lock()
	slow.hold = goOn
	slow.mu.Unlock()
	p.to(in(time.Second))
	p.alarmIs(time.Time{}) // torn down, and not confirmed
	done := make(chan error, 1)
	go func() {
		_, err := p.plan.Do(t.Context(), p.h.Stub(p.id), plan{Job: "f", In: time.Hour})
		done <- err
	}()
	time.Sleep(settle)
	slow.mu.Lock()
	slow.hold = nil
	slow.mu.Unlock()
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("who called meanwhile got %v", err)
	}
	if all := ask(p, p.list, 0); len(all) != 1 || p.h.Epoch(p.id) == before {
		t.Errorf("there are %+v", all)
	}
	p.alarmIs(in(time.Second + time.Hour))
	if msg := ask(p, p.try, "get old"); msg != "" {
		t.Error("the old rows are there")
	}
}
