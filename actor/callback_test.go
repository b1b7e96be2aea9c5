package actor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
)

func in(d time.Duration) time.Time { return morning.Add(d) }

func TestCallbackRunsAtItsTimeWithItsPayload(t *testing.T) {
	p := newPlanned(t, "a")
	ask(p, p.plan, plan{Job: "f", Payload: "hello", In: time.Minute})
	p.alarmIs(in(time.Minute))
	p.to(in(time.Minute - time.Microsecond))
	time.Sleep(20 * time.Millisecond)
	if p.has("f hello") {
		t.Fatal("ran early")
	}
	p.to(in(time.Minute))
	p.becomes("it runs", func() bool { return p.has("f hello") })
	p.alarmIs(time.Time{})
	if e := ask(p, p.list, 0); len(e) != 0 {
		t.Errorf("left are %+v", e)
	}
}

// Nothing but the alarm wakes the object: its constructor does not touch the schedule.
func TestAlarmFindsTheScheduleOfAnIncarnationThatHasNotUsedIt(t *testing.T) {
	p := newPlanned(t, "lazy")
	ask(p, p.plan, plan{Job: "f", Payload: "x", In: time.Hour})
	p.stopHost()
	p.startHost()
	p.to(in(time.Hour))
	p.becomes("it runs", func() bool { return p.has("f x") })
	p.alarmIs(time.Time{})
	ask(p, p.plan, plan{Job: "f", Payload: "y", In: time.Hour})
	p.h.Reset(p.id, actor.Aborted, nil)
	if msg := ask(p, p.try, "set-alarm"); !strings.Contains(msg, actor.ErrScheduled.Error()) {
		t.Errorf("the alarm of a schedule was set by another incarnation: %q", msg)
	}
}

func TestWhatWasDueWhileNobodyRanRunsAtTheStart(t *testing.T) {
	p := newPlanned(t, "a")
	ask(p, p.plan, plan{Job: "f", Payload: "once", In: time.Hour})
	ask(p, p.plan, plan{Job: "g", Payload: "again", Kind: "every", In: time.Hour})
	p.stopHost()
	p.c.Jump(in(5*24*time.Hour + 30*time.Minute))
	p.startHost()
	p.becomes("both run", func() bool { return p.has("f once") && p.has("g again") })
	p.alarmIs(in(5*24*time.Hour + time.Hour)) // on the grid, and one run for all that were missed
	if all := p.ran.list(); len(all) != 2 {
		t.Errorf("ran %q", all)
	}
}

func TestAnAwaitingCallbackLetsOthersRunInTime(t *testing.T) {
	p := newPlanned(t, "a")
	wait := make(chan struct{})
	p.await["f"] = wait
	ask(p, p.plan, plan{Job: "f", In: time.Second})
	ask(p, p.plan, plan{Job: "g", Payload: "cron", Kind: "cron", Spec: "* * * * *"})
	p.to(in(time.Second))
	p.becomes("f begins", func() bool { return p.has("f ") })
	p.alarmIs(in(31 * time.Second)) // a crash would have it run again by then
	p.to(in(31 * time.Second))
	p.alarmIs(in(time.Minute))
	p.to(in(time.Minute))
	p.becomes("g runs", func() bool { return p.has("g cron") })
	close(wait)
	p.alarmIs(in(2 * time.Minute))
	if e := ask(p, p.list, 0); len(e) != 1 || e[0].Callback != "g" {
		t.Errorf("left are %+v", e)
	}
}

func TestHungCallbackIsToldAndGivenUp(t *testing.T) {
	p := newPlanned(t, "a")
	p.await["f"] = make(chan struct{}) // for ever
	ask(p, p.plan, plan{Job: "f", Kind: "every", In: 20 * time.Second, Attempts: 1})
	p.to(in(20 * time.Second))
	p.alarmIs(in(50 * time.Second))
	p.becomes("f runs", func() bool { return p.has("f ") }) // had it not begun, its beginning would have waited for too long by then
	p.to(in(50 * time.Second))
	p.alarmIs(in(60 * time.Second))
	p.becomes("the hung run's code ends", func() bool { return !busyIn(p) })
}

func busyIn(p *planned) bool {
	for _, e := range ask(p, p.list, 0) {
		if e.Running != nil {
			return true
		}
	}
	return false
}

func TestAFailingCallbackFailsItsRowAndNotTheAlarm(t *testing.T) {
	p := newPlanned(t, "a")
	p.outcome = func(job string, n int) error {
		if job == "f" && n < 3 {
			return errors.New("no")
		}
		return nil
	}
	ask(p, p.plan, plan{Job: "f", In: time.Second})
	ask(p, p.plan, plan{Job: "g", In: time.Second})
	at := in(time.Second)
	for n := 1; n <= 2; n++ {
		p.to(at)
		p.becomes("the row says so", func() bool {
			e := ask(p, p.list, 0)
			return len(e) == 1 && e[0].Failed == n && e[0].Running == nil
		})
		if row := p.row(); row.Retry != 0 || !row.At.After(at) {
			t.Fatalf("the alarm is %+v after failure %d", row, n)
		}
		at = p.row().At
	}
	p.to(at)
	p.alarmIs(time.Time{})
	if all := p.ran.list(); len(all) != 4 || !p.has("g ") {
		t.Errorf("ran %q", all)
	}
}

// What is stored by another version of the code may not be what the callback takes: no
// attempt would go better, so there is none, and nothing of it is lost.
func TestAPayloadThatDoesNotDecodeIsSetAside(t *testing.T) {
	p := newPlanned(t, "a")
	ask(p, p.try, `in {"invoice":4711}`)
	p.becomes("it is set aside", func() bool { return ask(p, p.try, "aside") == `{"invoice":4711}` })
	p.alarmIs(time.Time{})
	if e := ask(p, p.list, 0); len(e) != 0 || p.times("f") != 0 {
		t.Errorf("left are %+v, and f ran %d times", e, p.times("f"))
	}
}

func TestPanicInACallbackResetsTheObjectAndCountsInItsRow(t *testing.T) {
	p := newPlanned(t, "a")
	ask(p, p.plan, plan{Job: "panic", In: 0, Attempts: 2, ID: "bad"})
	ask(p, p.plan, plan{Job: "g", In: time.Second, ID: "other"})
	p.becomes("it is counted", func() bool {
		e := ask(p, p.list, 0)
		return len(e) == 2 && e[1].Failed == 1
	})
	p.to(in(time.Second))
	p.becomes("the other has run", func() bool { return p.has("g ") && len(ask(p, p.list, 0)) == 1 })
	p.to(in(20 * time.Second)) // the watchdog's looks come at once: half a minute of them breaks what has just begun
	p.becomes("it is given up", func() bool { return p.times("panic") == 2 && len(ask(p, p.list, 0)) == 0 })
	p.alarmIs(time.Time{})
}

func TestMemoryPoisonIsRemovedAndNothingElse(t *testing.T) {
	p := newPlanned(t, "a")
	ask(p, p.plan, plan{Job: "oom", In: 0, ID: "poison"})
	ask(p, p.plan, plan{Job: "g", Kind: "every", In: 24 * time.Hour, ID: "healthy"})
	bystander := *p
	bystander.id.Name = "bystander"
	ask(&bystander, p.plan, plan{Job: "f", In: 24 * time.Hour, ID: "other"})
	for strikes := 1; strikes <= 2; strikes++ {
		var next time.Time
		p.becomes("the strike is counted", func() bool {
			for _, e := range ask(p, p.list, 0) {
				if e.ID == "poison" && e.Strikes == strikes {
					next = e.Next
					return true
				}
			}
			return false
		})
		if wait := next.Sub(p.c.Now()); wait > time.Duration(strikes)*30*time.Second || wait < time.Duration(strikes)*29*time.Second {
			t.Errorf("strike %d waits %v", strikes, wait)
		}
		p.alarmIs(next)
		p.to(next)
	}
	p.becomes("the poison is gone", func() bool {
		e := ask(p, p.list, 0)
		return len(e) == 1 && e[0].ID == "healthy"
	})
	if e := ask(&bystander, p.list, 0); len(e) != 1 || e[0].Strikes != 0 {
		t.Errorf("the bystander has %+v", e)
	}
	if n := p.times("oom"); n != alarm.MaxStrikes {
		t.Errorf("it ran %d times", n)
	}
}

// The whole isolate is reset: a run of another object that is in progress then is
// not to blame, and is run again without delay.
func TestABystanderOfAMemoryResetIsNotStruck(t *testing.T) {
	p := newPlanned(t, "a")
	p.await["f"] = make(chan struct{})
	ask(p, p.plan, plan{Job: "f", In: 0, ID: "bystander"})
	p.becomes("f begins", func() bool { return p.has("f ") })
	other := *p
	other.id.Name = "other"
	ask(&other, p.plan, plan{Job: "oom", In: 0, ID: "poison"})
	p.becomes("f begins again", func() bool { ask(p, p.try, "poke"); return p.times("f") == 2 })
	if e := ask(p, p.list, 0); len(e) != 1 || e[0].Strikes != 0 || e[0].Lost != 0 || e[0].Failed != 0 {
		t.Errorf("%+v", e)
	}
	close(p.await["f"])
	p.becomes("f ends", func() bool { return len(ask(p, p.list, 0)) == 0 })
}

func TestARunThatAbortsLeavesNoTraceAndBacksOff(t *testing.T) {
	p := newPlanned(t, "a")
	ask(p, p.plan, plan{Job: "abort", In: 0})
	p.becomes("it is noted", func() bool { e := ask(p, p.list, 0); return len(e) == 1 && e[0].Lost == 1 })
	if msg := ask(p, p.try, "get trace"); msg != "" {
		t.Error("what an aborted run wrote is there")
	}
	if e := ask(p, p.list, 0); e[0].Failed != 0 || !e[0].Next.After(p.c.Now()) {
		t.Errorf("%+v", e)
	}
}

func TestPendingDestroyTearsDownASecondLater(t *testing.T) {
	p := newPlanned(t, "a")
	ask(p, p.try, "put x")
	ask(p, p.try, "put reluctant")
	ask(p, p.plan, plan{Job: "f", In: 0, Attempts: 1})
	p.becomes("f runs", func() bool { return p.has("f ") })
	ask(p, p.plan, plan{Job: "f", In: time.Hour})
	ask(p, p.idle, time.Millisecond)
	ask(p, p.hold, 0)
	if msg := ask(p, p.try, "destroy"); msg != "" {
		t.Fatal(msg)
	}
	p.alarmIs(in(time.Second))
	ask(p, p.try, "delete-all")
	p.alarmIs(in(time.Second))
	ask(p, p.try, "put reluctant")
	p.h.Reset(p.id, actor.Aborted, nil)
	if msg := ask(p, p.try, "get reluctant"); msg == "" {
		t.Fatal("torn down early")
	}
	p.alarmIs(in(time.Second))
	p.to(in(time.Second)) // it refuses once
	p.becomes("it is tried again", func() bool { at := p.row().At; return at.After(in(2*time.Second)) && at.Before(in(5*time.Second)) })
	p.to(p.row().At)
	p.alarmIs(time.Time{})
	if objects, err := p.store.Objects(t.Context(), "planner", "", 10); err != nil || len(objects) != 0 {
		t.Errorf("left are %v %v", objects, err)
	}
	ask(p, p.plan, plan{Job: "f", In: time.Hour}) // a new one by the same name
}

func TestTheAlarmCantBeSetBeneathASchedule(t *testing.T) {
	p := newPlanned(t, "a")
	for _, what := range []string{"set-alarm", "delete-alarm"} {
		if msg := ask(p, p.try, what); !strings.Contains(msg, actor.ErrScheduled.Error()) || !strings.Contains(msg, "AddSource") {
			t.Errorf("%s: %q", what, msg)
		}
	}
}

func TestSchedulesAreOutOfReachOfTheObjectsOwnKeys(t *testing.T) {
	p := newPlanned(t, "a")
	ask(p, p.plan, plan{Job: "f", In: time.Hour, ID: "one"})
	ask(p, p.try, "put b")
	ask(p, p.try, "put a")
	key := alarm.Prefix + "e/one"
	for _, verb := range []string{"put", "delete", "get"} {
		if msg := ask(p, p.try, verb+" "+key); !strings.Contains(msg, "reserved") {
			t.Errorf("%s: %q", verb, msg)
		}
	}
	if keys, want := ask(p, p.try, "keys"), "[a b];[a b];[a b];[];[b a];[a];[]"; keys != want {
		t.Errorf("listed %s, want %s", keys, want)
	}
	ask(p, p.try, "delete-all")
	if e := ask(p, p.list, 0); len(e) != 0 || !p.row().At.IsZero() {
		t.Errorf("left are %+v and the alarm %v", e, p.row())
	}
}

func TestKeepAlivePreventsEviction(t *testing.T) {
	p := newPlanned(t, "a")
	ask(p, p.hold, 0)
	for range 100 {
		p.c.Advance(time.Second)
		time.Sleep(100 * time.Microsecond)
	}
	if !p.h.Active(p.id) {
		t.Fatal("evicted while it is kept alive")
	}
	ask(p, p.release, 0)
	p.alarmIs(time.Time{})
	p.becomes("it is evicted", func() bool { p.c.Advance(time.Second); return !p.h.Active(p.id) })
}

func TestTwoCallbacksOfOneNamePanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two callbacks of one name")
		}
	}()
	p := newPlanners()
	actor.Callback(p.class, "f", func(*planner, context.Context, int) error { return nil })
}

func TestUnknownCallbackAndBadTimesReachTheCaller(t *testing.T) {
	p := newPlanned(t, "a")
	for _, bad := range []plan{{Job: "f", In: -1}, {Job: "f", Kind: "cron", Spec: "never"}, {Job: "f", Kind: "every", In: 31 * 24 * time.Hour}} {
		_, err := p.plan.Do(t.Context(), p.h.Stub(p.id), bad)
		if _, typed := errors.AsType[*alarm.Error](err); !typed {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if e := ask(p, p.list, 0); len(e) != 0 || !p.row().At.IsZero() {
		t.Errorf("left are %+v", e)
	}
	if !slices.Contains([]string{"f", "g"}, p.job["f"].Name()) {
		t.Error(p.job["f"].Name())
	}
}
