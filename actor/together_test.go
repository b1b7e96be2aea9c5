package actor_test

import (
	"fmt"
	"testing"
	"time"
)

// A cron schedule and the idle deadline of a session on one object, whose client
// comes back every ten seconds: cron stays punctual, the idle deadline is met each
// time, and a call that outlasts the time-out keeps what it uses.
func TestCronAndAnIdleDeadlineShareAnObject(t *testing.T) {
	const ceiling = 35 * time.Minute
	p := newPlanned(t, "together")
	ask(p, p.plan, plan{Job: "f", Kind: "cron", Spec: "* * * * *"})
	resident := func() bool { return ask(p, p.try, "get deadline") != "" }

	// idle is when the session wants to be asked; zero when nothing is resident.
	var idle time.Time
	move := func(d time.Duration) {
		ask(p, p.idle, d)
		idle = p.c.Now().Add(d)
	}
	// until lets time pass, in steps of ten seconds and to whatever is due between.
	until := func(end time.Time) {
		t.Helper()
		for p.c.Now().Before(end) {
			next := p.c.Now().Truncate(10 * time.Second).Add(10 * time.Second)
			if !idle.IsZero() && idle.Before(next) {
				next = idle
			}
			p.to(next)
			if !idle.IsZero() && !idle.After(next) {
				idle = time.Time{}
			}
			minutes := int(next.Sub(morning) / time.Minute)
			p.becomes(fmt.Sprintf("cron has run %d times", minutes), func() bool { return p.times("f") == minutes })
			due := next.Truncate(time.Minute).Add(time.Minute)
			if !idle.IsZero() && idle.Before(due) {
				due = idle
			}
			// The client comes back: that holds a keep-alive for a moment, and moves nothing
			// when it is released, outside of any turn.
			ask(p, p.hold, 0)
			p.letGo()
			p.alarmIs(due)
			if resident() != !idle.IsZero() {
				t.Fatalf("at %v resident is %t, and the idle deadline %v", next, resident(), idle)
			}
		}
	}

	for range 2 {
		move(ceiling) // a call, under its lease
		until(p.c.Now().Add(2*idleTimeout + 17*time.Second))
		if !resident() {
			t.Fatal("a call that outlasts the idle time-out has lost its runtime")
		}
		move(idleTimeout) // its answer
		until(p.c.Now().Add(idleTimeout + time.Minute))
		if resident() {
			t.Fatal("an idle runtime was not reclaimed")
		}
	}
}
