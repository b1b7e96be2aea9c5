package alarm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOneShotRunsOnceAndItsRowGoesWithItsSuccess(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.In(5*time.Second, "f", []byte("hello"))) })
	if want := monday.Add(5 * time.Second); !o.alarm.At.Equal(want) {
		t.Fatalf("the alarm is %v, want %v", o.alarm.At, want)
	}
	o.until(monday.Add(time.Hour), func(r Run) error {
		if string(r.Payload) != "hello" || r.Callback != "f" || r.Attempt != 0 {
			t.Errorf("ran %+v", r)
		}
		if len(o.rows) == 0 {
			t.Error("the row is gone before the run has succeeded")
		}
		return nil
	})
	if len(o.ran) != 1 || len(o.rows) != 0 || !o.alarm.At.IsZero() {
		t.Errorf("%d runs, and left are %v and the alarm %v", len(o.ran), o.rows, o.alarm)
	}
}

func TestFailureRetriesInItsOwnRowAndNowhereElse(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) {
		must(t)(s.In(0, "f", nil, WithRetry(4, time.Second)))
		must(t)(s.In(0, "g", nil))
	})
	var at []time.Duration
	o.until(monday.Add(time.Hour), func(r Run) error {
		if r.Callback == "g" {
			return nil
		}
		if o.alarm.Retry != 0 {
			t.Error("the alarm counts retries as well: two back-offs multiply")
		}
		at = append(at, o.now.Sub(monday))
		if r.Attempt != len(at)-1 {
			t.Errorf("attempt %d is told that it is %d", len(at)-1, r.Attempt)
		}
		return errors.New("no")
	})
	if len(at) != 4 {
		t.Fatalf("tried at %v, want 4 attempts", at)
	}
	for i, base := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if d := at[i+1] - at[i]; d < base || d > base*5/4+time.Microsecond {
			t.Errorf("the wait after failure %d is %v, want %v and up to a quarter more", i+1, d, base)
		}
	}
	if len(o.rows) != 0 || !o.logged("failed for the last time") {
		t.Error("what has failed for the last time is not removed, loudly")
	}
	if n := len(o.ran) - len(at); n != 1 {
		t.Errorf("the other schedule ran %d times", n)
	}
}

func TestRetriesSurviveARestart(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.In(0, "f", nil, WithRetry(3, time.Second))) })
	n := 0
	for range 10 {
		if o.alarm.At.IsZero() {
			break
		}
		o.now = o.alarm.At
		o.wake(func(r Run) error { n++; return errors.New("no") })
		o.restart(Reset{})
		o.turn(func(s *Schedule) { _, _ = s.List() })
	}
	if n != 3 {
		t.Errorf("%d attempts over restarts, want 3", n)
	}
}

func TestPlatformErrorsCostNoAttempt(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.In(0, "f", nil, WithRetry(1, time.Second))) })
	n := 0
	o.until(monday.Add(24*time.Hour), func(r Run) error {
		if n++; n <= 5 {
			return fmt.Errorf("wrapped: %w", errPlatform)
		}
		return nil
	})
	if n != 6 {
		t.Errorf("%d runs, want 5 that were the platform's fault and one that succeeds", n)
	}
}

func TestCronGoesOnAndMissedRunsAreOne(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.Cron("0 * * * *", "f", nil)) })
	o.until(monday.Add(2*time.Hour), nil)
	o.now = monday.Add(7*time.Hour + 30*time.Minute) // nobody was there for five hours
	o.until(monday.Add(9*time.Hour), nil)
	if want := []string{"10:00:00", "11:00:00", "12:00:00", "17:00:00", "18:00:00"}; !slices.Equal(o.times(), want) {
		t.Errorf("ran for %v, want %v", o.times(), want)
	}
}

func TestIntervalsDoNotDriftNorPileUp(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.Every(10*time.Second, "f", nil)) })
	late := func(r Run) error { o.now = o.now.Add(1300 * time.Millisecond); return nil } // a slow run
	o.until(monday.Add(31*time.Second), late)
	o.now = monday.Add(75 * time.Second)
	o.until(monday.Add(91*time.Second), late)
	if want := []string{"09:00:10", "09:00:20", "09:00:30", "09:00:40", "09:01:20", "09:01:30"}; !slices.Equal(o.times(), want) {
		t.Errorf("ran for %v, want %v", o.times(), want)
	}
}

func TestFollowingStaysOnTheGrid(t *testing.T) {
	for _, c := range []struct{ d, after, want time.Duration }{
		{time.Second, -time.Minute, 0},
		{time.Second, 0, time.Second},
		{time.Second, time.Second - 1, time.Second},
		{time.Second, time.Second, 2 * time.Second},
		{MaxInterval, 90 * 24 * time.Hour, 120 * 24 * time.Hour},
	} {
		if got := following(monday, c.d, monday.Add(c.after)); !got.Equal(monday.Add(c.want)) {
			t.Errorf("every %v, %v after: %v, want %v", c.d, c.after, got.Sub(monday), c.want)
		}
	}
	if got, now := following(monday, time.Second, monday.AddDate(1000, 0, 0)), monday.AddDate(1000, 0, 0); !got.After(now) || got.Sub(now) > time.Second {
		t.Errorf("after a thousand years: %v", got)
	}
}

func TestIntervalDoesNotOverlapItself(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.Every(time.Second, "f", nil, WithLimit(time.Hour))) })
	var running Run
	o.until(monday.Add(10*time.Minute), func(r Run) error { running = r; return errAwaits })
	if len(o.ran) != 1 {
		t.Fatalf("%d runs at once", len(o.ran))
	}
	o.turn(func(*Schedule) {
		if _, err := o.keeper.Ran(running, nil); err != nil {
			t.Fatal(err)
		}
	})
	if want := monday.Add(10*time.Minute + time.Second); !o.alarm.At.Equal(want) {
		t.Errorf("the next run is at %v, want %v", o.alarm.At, want)
	}
}

func TestHungIntervalIsGivenUpAfter30s(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.Every(20*time.Second, "f", nil)) })
	o.now = o.alarm.At
	var w Work
	o.turn(func(*Schedule) { w, _ = o.keeper.Wake(0) })
	var hung struct {
		ctx context.Context
		run Run
	}
	o.turn(func(*Schedule) {
		ctx, run, err := o.keeper.Begin(context.Background(), w.Runs[0])
		if err != nil {
			t.Fatal(err)
		}
		hung.ctx, hung.run = ctx, run //nolint:fatcontext // the run is looked at from outside
	})
	if want := o.now.Add(30 * time.Second); !o.alarm.At.Equal(want) {
		t.Fatalf("a run in progress is looked at again at %v, want %v", o.alarm.At, want)
	}
	o.now = o.alarm.At
	o.wake(nil)
	if !errors.Is(context.Cause(hung.ctx), ErrHung) || !o.logged("outlasted its limit") {
		t.Errorf("the context of a hung run is %v; the log: %s", context.Cause(hung.ctx), &o.log)
	}
	if next := o.alarm.At.Sub(o.now); next < DefaultBase || next > 10*time.Second {
		t.Errorf("the next run is %v from now, want a retry, not later than the grid", next)
	}
	late := func() { o.turn(func(*Schedule) { _, _ = o.keeper.Ran(hung.run, nil) }) }
	before := o.alarm
	late()
	if o.alarm != before {
		t.Error("the run that was given up still counts")
	}
	o.now = o.alarm.At
	o.wake(func(Run) error { return errAwaits })
	late()
	if e := o.entries(); e[0].Running == nil || e[0].Failed != 1 {
		t.Errorf("the run that was given up ends the one after it: %+v", e[0])
	}
}

func TestRegisteringAgainIsOneScheduleAndStillArms(t *testing.T) {
	o := newOwner(t)
	register := map[string]func(s *Schedule) (Entry, error){
		"every":           func(s *Schedule) (Entry, error) { return s.Every(time.Minute, "f", []byte("x")) },
		"cron":            func(s *Schedule) (Entry, error) { return s.Cron("0 0 1 1 *", "f", []byte("x")) },
		"in, idempotent":  func(s *Schedule) (Entry, error) { return s.In(time.Hour, "f", []byte("x"), Idempotent()) },
		"at, by ID":       func(s *Schedule) (Entry, error) { return s.At(monday.Add(time.Hour), "f", []byte("x"), WithID("one")) },
		"another payload": func(s *Schedule) (Entry, error) { return s.Every(time.Minute, "f", []byte("y")) },
	}
	first := map[string]Entry{}
	for name, f := range register {
		o.turn(func(s *Schedule) { first[name] = must(t)(f(s)) })
	}
	armed := o.alarm
	o.now = o.now.Add(10 * time.Second)
	o.restart(Reset{})
	o.alarm.At = time.Time{} // as if somebody had lost it
	for name, f := range register {
		o.turn(func(s *Schedule) {
			if again := must(t)(f(s)); again.ID != first[name].ID || !again.Next.Equal(first[name].Next) {
				t.Errorf("%s: registered again as %+v, was %+v", name, again, first[name])
			}
		})
	}
	if n := len(o.entries()); n != len(register) {
		t.Errorf("there are %d schedules, want %d", n, len(register))
	}
	if o.alarm != armed {
		t.Errorf("the alarm is %v, want %v", o.alarm, armed)
	}
	o.turn(func(s *Schedule) {
		a, b := must(t)(s.In(time.Hour, "f", nil)), must(t)(s.In(time.Hour, "f", nil))
		if a.ID == b.ID {
			t.Error("In without an option is one schedule each")
		}
	})
}

func TestIDIsReplacedByAnotherSchedule(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) {
		must(t)(s.In(time.Hour, "f", []byte("x"), WithID("one")))
		must(t)(s.In(time.Minute, "g", nil, WithID("one")))
	})
	e := o.entries()
	if len(e) != 1 || e[0].Callback != "g" || len(o.rows) != 1 {
		t.Fatalf("there are %+v in %d rows", e, len(o.rows))
	}
	if want := monday.Add(time.Minute); !o.alarm.At.Equal(want) {
		t.Errorf("the alarm is %v, want %v", o.alarm.At, want)
	}
}

func TestGetListCancel(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) {
		must(t)(s.In(2*time.Hour, "f", []byte("x"), WithID("late")))
		must(t)(s.In(time.Hour, "g", nil, WithID("early")))
		e, ok, err := s.Get("late")
		if err != nil || !ok || string(e.Payload) != "x" || e.Kind != Delay || e.Spec != "2h0m0s" {
			t.Errorf("got %+v %v %v", e, ok, err)
		}
		if _, ok, err := s.Get("none"); ok || err != nil {
			t.Errorf("got what is not there: %v", err)
		}
	})
	if e := o.entries(); len(e) != 2 || e[0].ID != "early" || e[1].ID != "late" {
		t.Errorf("listed %+v", e)
	}
	o.turn(func(s *Schedule) {
		if ok, err := s.Cancel("early"); !ok || err != nil {
			t.Error(ok, err)
		}
		if ok, err := s.Cancel("early"); ok || err != nil {
			t.Error(ok, err)
		}
	})
	if want := monday.Add(2 * time.Hour); !o.alarm.At.Equal(want) {
		t.Errorf("the alarm is %v, want %v", o.alarm.At, want)
	}
	o.turn(func(s *Schedule) { _, _ = s.Cancel("late") })
	if !o.alarm.At.IsZero() || len(o.rows) != 0 {
		t.Errorf("left are %v and the alarm %v", o.rows, o.alarm.At)
	}
}

// The first moment after 1970 began is a time like any other that has passed.
func TestTheFirstMicrosecondHasPassed(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.At(time.UnixMicro(1), "f", nil)) })
	if o.alarm.At.After(o.now) || o.alarm.At.IsZero() {
		t.Errorf("the alarm is %v, want one that is due", o.alarm.At)
	}
	if err := CheckTime(time.UnixMicro(1).Add(-1)); !errors.Is(err, ErrTime) {
		t.Errorf("what is before it: %v", err)
	}
}

func TestBadInputIsATypedErrorAndNoChange(t *testing.T) {
	o := newOwner(t)
	big := make([]byte, MaxPayload+1)
	for name, c := range map[string]struct {
		want error
		f    func(s *Schedule) (Entry, error)
	}{
		"negative delay":     {ErrTime, func(s *Schedule) (Entry, error) { return s.In(-1, "f", nil) }},
		"zero time":          {ErrTime, func(s *Schedule) (Entry, error) { return s.At(time.Time{}, "f", nil) }},
		"before 1970":        {ErrTime, func(s *Schedule) (Entry, error) { return s.At(time.Unix(-1, 0), "f", nil) }},
		"1970 itself":        {ErrTime, func(s *Schedule) (Entry, error) { return s.At(time.Unix(0, 0), "f", nil) }},
		"after 9999":         {ErrTime, func(s *Schedule) (Entry, error) { return s.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "f", nil) }},
		"beyond all times":   {ErrTime, func(s *Schedule) (Entry, error) { return s.At(time.Unix(math.MaxInt64, 0), "f", nil) }},
		"no interval":        {ErrInterval, func(s *Schedule) (Entry, error) { return s.Every(0, "f", nil) }},
		"negative interval":  {ErrInterval, func(s *Schedule) (Entry, error) { return s.Every(-time.Hour, "f", nil) }},
		"interval too short": {ErrInterval, func(s *Schedule) (Entry, error) { return s.Every(MinInterval-1, "f", nil) }},
		"interval too long":  {ErrInterval, func(s *Schedule) (Entry, error) { return s.Every(MaxInterval+1, "f", nil) }},
		"cron":               {ErrCron, func(s *Schedule) (Entry, error) { return s.Cron("61 * * * *", "f", nil) }},
		"cron never":         {ErrCron, func(s *Schedule) (Entry, error) { return s.Cron("0 0 30 2 *", "f", nil) }},
		"zone":               {ErrZone, func(s *Schedule) (Entry, error) { return s.Cron("* * * * *", "f", nil, InZone("Mars/Olympus")) }},
		"zone without cron":  {ErrZone, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, InZone("Europe/Berlin")) }},
		"callback":           {ErrCallback, func(s *Schedule) (Entry, error) { return s.In(1, "h", nil) }},
		"no callback":        {ErrCallback, func(s *Schedule) (Entry, error) { return s.In(1, "", nil) }},
		"payload":            {ErrPayload, func(s *Schedule) (Entry, error) { return s.In(1, "f", big) }},
		"empty ID":           {ErrID, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithID("")) }},
		"long ID":            {ErrID, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithID(strings.Repeat("x", MaxID+1))) }},
		"reserved ID":        {ErrID, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithID("~x")) }},
		"not UTF-8":          {ErrID, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithID("\xff")) }},
		"attempts":           {ErrPolicy, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithRetry(MaxAttempts+1, 1)) }},
		"negative attempts":  {ErrPolicy, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithRetry(-1, time.Second)) }},
		"negative wait":      {ErrPolicy, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithRetry(1, -time.Second)) }},
		"negative limit":     {ErrPolicy, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithLimit(-1)) }},
		"no attempts":        {ErrPolicy, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithRetry(0, time.Second)) }},
		"no wait":            {ErrPolicy, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithRetry(1, 0)) }},
		"no limit":           {ErrPolicy, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithLimit(0)) }},
		"no limit, again":    {ErrPolicy, func(s *Schedule) (Entry, error) { return s.Every(time.Hour, "f", nil, WithLimit(0)) }},
		"endless limit":      {ErrPolicy, func(s *Schedule) (Entry, error) { return s.In(1, "f", nil, WithLimit(math.MaxInt64)) }},
	} {
		o.turn(func(s *Schedule) {
			_, err := c.f(s)
			var typed *Error
			if !errors.Is(err, c.want) || !errors.As(err, &typed) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		})
		if len(o.rows) != 0 || !o.alarm.At.IsZero() {
			t.Fatalf("%s: left are %d rows and the alarm %v", name, len(o.rows), o.alarm)
		}
	}
	o.turn(func(s *Schedule) {
		must(t)(s.In(0, "f", big[1:]))
		must(t)(s.Every(MinInterval, "f", nil))
		must(t)(s.Every(MaxInterval, "f", nil))
		must(t)(s.At(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), "f", nil, WithID(strings.Repeat("x", MaxID))))
		must(t)(s.In(math.MaxInt64, "f", nil))
	})
	if _, err := o.keeper.Schedule().In(1, "f", nil); err == nil {
		t.Error("a schedule was made outside of a turn")
	}
}

func TestTenThousandSchedulesAndNoMore(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) {
		for i := range MaxSchedules {
			must(t)(s.In(time.Duration(MaxSchedules-i)*time.Second, "f", nil, WithID(fmt.Sprint(i))))
		}
		if _, err := s.In(0, "f", nil); !errors.Is(err, ErrTooMany) {
			t.Errorf("one more: %v", err)
		}
		must(t)(s.In(time.Hour, "g", nil, WithID("7"))) // instead of another
	})
	o.restart(Reset{})
	began := time.Now()
	o.turn(func(s *Schedule) {
		if e, err := s.List(); len(e) != MaxSchedules || err != nil || e[0].ID != fmt.Sprint(MaxSchedules-1) {
			t.Errorf("%d schedules, %v", len(e), err)
		}
	})
	t.Logf("loaded in %v", time.Since(began))
	o.now = monday.Add(4 * time.Hour)
	o.wake(nil)
	if len(o.ran) != MaxSchedules {
		t.Errorf("%d of %d ran", len(o.ran), MaxSchedules)
	}
}

func TestBadRowsAreSetAsideAndTheOthersRun(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) {
		for _, id := range []string{"good", "kind", "lost", "gone", "spec"} {
			must(t)(s.In(time.Second, "f", []byte("x"), WithID(id)))
		}
		must(t)(s.In(time.Second, "g", nil, WithID("callback")))
		must(t)(s.Cron("* * * * *", "f", nil, WithID("cron")))
	})
	bad := map[string]string{
		"json": "{", "empty": "", "nothing": "{}", "newer": strings.Replace(string(o.rows[entryPrefix+"good"]), `"v":1`, `"v":2`, 1),
		"kind":   strings.Replace(string(o.rows[entryPrefix+"kind"]), `"delay"`, `"sometimes"`, 1),
		"policy": strings.Replace(string(o.rows[entryPrefix+"good"]), `"attempts":7`, `"attempts":-7`, 1),
		"spec":   strings.Replace(string(o.rows[entryPrefix+"spec"]), `"delay"`, `"interval"`, 1),
	}
	good := string(o.rows[entryPrefix+"good"])
	i := strings.Index(good, `"due":"`)
	bad["year"] = good[:i] + `"due":"0000-01-01T00:00:00Z"` + good[i+len(`"due":"2026-03-02T09:00:01Z"`):]
	bad["spec"] = strings.Replace(bad["spec"], `"1s"`, `"1 parsec"`, 1)
	for id, v := range bad {
		o.rows[entryPrefix+id] = []byte(v)
	}
	o.rows[entryPrefix+"cron"] = []byte(strings.Replace(string(o.rows[entryPrefix+"cron"]), `"* * * * *"`, `"* *"`, 1))
	delete(o.rows, payloadPrefix+"gone")
	o.known["g"] = false // another version of the code
	o.restart(Reset{})
	o.turn(func(s *Schedule) { _, _ = s.List() })
	o.until(monday.Add(time.Hour), nil)
	var ran []string
	for _, r := range o.ran {
		ran = append(ran, r.ID)
	}
	slices.Sort(ran)
	if want := []string{"good", "lost"}; !slices.Equal(ran, want) {
		t.Errorf("%v ran, want %v", ran, want)
	}
	aside := o.aside()
	for _, id := range []string{"json", "empty", "nothing", "newer", "kind", "policy", "year", "spec", "callback", "gone", "cron"} {
		if v, ok := aside[id]; !ok {
			t.Errorf("%s was not set aside", id)
		} else if want, ok := bad[id]; ok && string(v.Row) != want {
			t.Errorf("%s was set aside as %q", id, v.Row)
		}
		if !o.logged("schedule=" + id) {
			t.Errorf("%s was not reported", id)
		}
	}
	for _, id := range []string{"kind", "spec"} {
		if string(aside[id].Payload) != "x" {
			t.Errorf("the payload of %s is %q", id, aside[id].Payload)
		}
		delete(o.rows, payloadPrefix+id)
	}
	if !o.alarm.At.IsZero() || len(o.rows) != len(aside) {
		t.Errorf("left are %d rows and the alarm %v", len(o.rows), o.alarm)
	}
}

func TestRunsBeyondTheBoundWaitForRoom(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) {
		for range maxRunning + 10 {
			must(t)(s.In(0, "f", nil))
		}
	})
	w := o.wake(func(Run) error { return errAwaits })
	if len(w.Runs) != maxRunning || len(o.ran) != maxRunning {
		t.Fatalf("%d begin, want %d", len(w.Runs), maxRunning)
	}
	if !o.alarm.At.After(o.now) {
		t.Fatal("what waits for room makes the alarm spin")
	}
	for i := 0; i < len(o.ran); i++ {
		r := o.ran[i]
		var next []Run
		o.turn(func(*Schedule) { next, _ = o.keeper.Ran(r, nil) })
		for _, n := range next {
			o.run(n, func(Run) error { return errAwaits })
		}
	}
	if len(o.ran) != maxRunning+10 || len(o.rows) != 0 {
		t.Errorf("%d ran, %d rows are left", len(o.ran), len(o.rows))
	}
}
