package alarm

import (
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// look is a turn in which the object does nothing, as the dispatcher asks for it
// when the wall clock was put back.
func (o *owner) look() { o.turn(func(s *Schedule) { _, _ = s.List() }) }

// next is when the schedule of an ID runs next; zero: there is none.
func (o *owner) next(id string) time.Time {
	for _, e := range o.entries() {
		if e.ID == id {
			return e.Next
		}
	}
	return time.Time{}
}

func TestWhatWaitsIsNotMadeToWaitByAClockThatIsPutBack(t *testing.T) {
	fails := errors.New("no")
	for name, c := range map[string]struct {
		register func(s *Schedule) (Entry, error)
		outcome  error         // of the first run, if the wait is that before a retry
		back     time.Duration // by how much the clock is put back, 10 s after that
		want     time.Duration // from then to the next run
	}{
		"a delay":            {func(s *Schedule) (Entry, error) { return s.In(time.Minute, "f", nil, WithID("x")) }, nil, 48 * time.Hour, 50 * time.Second},
		"an interval":        {func(s *Schedule) (Entry, error) { return s.Every(time.Minute, "f", nil, WithID("x")) }, nil, 48 * time.Hour, 50 * time.Second},
		"a long interval":    {func(s *Schedule) (Entry, error) { return s.Every(MaxInterval, "f", nil, WithID("x")) }, nil, 48 * time.Hour, MaxInterval - 10*time.Second},
		"a time stays":       {func(s *Schedule) (Entry, error) { return s.At(monday.Add(time.Minute), "f", nil, WithID("x")) }, nil, time.Hour, time.Hour + 50*time.Second},
		"a retry of a delay": {func(s *Schedule) (Entry, error) { return s.In(0, "f", nil, WithID("x"), WithRetry(9, time.Hour)) }, fails, 48 * time.Hour, -time.Hour},
		"a retry of a time":  {func(s *Schedule) (Entry, error) { return s.At(monday, "f", nil, WithID("x"), WithRetry(9, time.Hour)) }, fails, 48 * time.Hour, -time.Hour},
		"a retry of cron": {func(s *Schedule) (Entry, error) {
			return s.Cron("0 9 * * *", "f", nil, WithID("x"), WithRetry(9, time.Hour))
		}, fails, time.Hour, -time.Hour},
		"every hour, by cron":             {func(s *Schedule) (Entry, error) { return s.Cron("30 * * * *", "f", nil, WithID("x")) }, nil, 48 * time.Hour, 30*time.Minute - 10*time.Second},
		"every hour, and a little back":   {func(s *Schedule) (Entry, error) { return s.Cron("5 * * * *", "f", nil, WithID("x")) }, nil, time.Hour, 5*time.Minute - 10*time.Second},
		"a fixed hour, and a little back": {func(s *Schedule) (Entry, error) { return s.Cron("0 9 * * *", "f", nil, WithID("x")) }, nil, 2 * time.Hour, 26*time.Hour - 10*time.Second},
		"a fixed hour, and far back":      {func(s *Schedule) (Entry, error) { return s.Cron("0 9 * * *", "f", nil, WithID("x")) }, nil, 48 * time.Hour, 24*time.Hour - 10*time.Second},
	} {
		for _, restarted := range []bool{false, true} {
			o := newOwner(t)
			o.turn(func(s *Schedule) { must(t)(c.register(s)) })
			if c.outcome != nil {
				o.now = o.alarm.At
				o.wake(func(Run) error { return c.outcome })
			}
			o.now = o.now.Add(10 * time.Second)
			o.look()
			wait := o.next("x").Sub(o.now)
			o.now = o.now.Add(-c.back)
			want := c.want
			if want < 0 {
				want = wait // what is left of it
			}
			if restarted {
				o.restart(Reset{})
			}
			o.look()
			got := o.next("x").Sub(o.now)
			// A new incarnation knows no more than when the row was written.
			if got != want && !(restarted && got > want && got <= want+10*time.Second) {
				t.Errorf("%s, restarted %v: %v to go, want %v", name, restarted, got, want)
			}
			if o.alarm.At.Sub(o.now) != got {
				t.Errorf("%s, restarted %v: the alarm is %v away, want %v", name, restarted, o.alarm.At.Sub(o.now), got)
			}
		}
	}
}

func TestAClockPutBackDuringARun(t *testing.T) {
	for name, c := range map[string]struct {
		register func(s *Schedule) (Entry, error)
		back     time.Duration
		want     time.Duration // from the end of the run to the next; 0: there is none
	}{
		"an interval":                     {func(s *Schedule) (Entry, error) { return s.Every(time.Minute, "f", nil, WithID("x")) }, 48 * time.Hour, time.Minute},
		"a fixed hour does not run twice": {func(s *Schedule) (Entry, error) { return s.Cron("1 9 * * *", "f", nil, WithID("x")) }, 10 * time.Minute, 24*time.Hour + 10*time.Minute},
		"every hour does":                 {func(s *Schedule) (Entry, error) { return s.Cron("1 * * * *", "f", nil, WithID("x")) }, 10 * time.Minute, 10 * time.Minute},
		"a delay":                         {func(s *Schedule) (Entry, error) { return s.In(time.Minute, "f", nil, WithID("x")) }, 48 * time.Hour, 0},
	} {
		o := newOwner(t)
		o.turn(func(s *Schedule) { must(t)(c.register(s)) })
		o.now = o.alarm.At
		o.wake(func(Run) error { o.now = o.now.Add(-c.back); return nil })
		if len(o.ran) != 1 {
			t.Fatalf("%s: %d runs", name, len(o.ran))
		}
		o.look()
		if next := o.next("x"); c.want == 0 && !next.IsZero() || c.want != 0 && !next.Equal(o.now.Add(c.want)) {
			t.Errorf("%s: the next run is %v from now, want %v", name, next.Sub(o.now), c.want)
		}
	}
}

func TestAHungRunIsFoundThoughTheClockWasPutBack(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.Every(20*time.Second, "f", nil)) })
	o.now = o.alarm.At
	o.wake(func(Run) error { return errAwaits })
	o.now = o.now.Add(-24 * time.Hour)
	o.look()
	if wait := o.alarm.At.Sub(o.now); wait > DefaultHung {
		t.Fatalf("the run is looked at again in %v", wait)
	}
	o.until(o.now.Add(DefaultHung), nil)
	if !o.logged("outlasted its limit") {
		t.Errorf("it is not given up: %s", &o.log)
	}
}

func TestADestroyIsNotPutOffByAClockThatIsPutBack(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		o := newOwner(t)
		o.turn(func(s *Schedule) {
			if err := s.Destroy(); err != nil {
				t.Fatal(err)
			}
		})
		o.now = o.now.Add(-24 * time.Hour)
		limit := destroyAfter
		if restarted {
			o.restart(Reset{})
			limit = MaxUncounted
		}
		o.look()
		if wait := o.alarm.At.Sub(o.now); wait <= 0 || wait > limit {
			t.Errorf("restarted %v: the object is torn down in %v, want at most %v", restarted, wait, limit)
		}
	}
}

func TestWhatIsHeldBackIsNotPutOffByAClockThatIsPutBack(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		o := newOwner(t)
		o.start = func(s *Schedule) { s.AddSource("now", func(now time.Time) time.Time { return now }) }
		o.restart(Reset{})
		o.turn(func(*Schedule) {
			if w, err := o.keeper.Wake(0); err != nil || !w.Alarm {
				t.Fatal(w, err)
			}
			_ = o.keeper.AlarmRan(errors.New("no"))
		})
		o.now = o.now.Add(-24 * time.Hour)
		if restarted {
			o.restart(Reset{})
		}
		o.look()
		if wait := o.alarm.At.Sub(o.now); wait <= 0 || wait > firstWait*5/4+time.Microsecond {
			t.Errorf("restarted %v: the owner's handler is tried again in %v", restarted, wait)
		}
	}
}

// A deadline that was taken from a monotonic reading is as far from now as it was
// meant to be.
func TestASourceOfTheMonotonicClockDoesNotFollowTheWallClock(t *testing.T) {
	begun := time.Now()
	at, now := begun.Add(5*time.Minute), monotonic(t, begun.Add(-24*time.Hour), 24*time.Hour+time.Minute)
	if got := byWall(at, now).Sub(now.Round(0)); got != 4*time.Minute {
		t.Errorf("it is %v away, want 4m", got)
	}
	if far := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC); !byWall(far, now).Equal(far) {
		t.Errorf("a time of the calendar became %v", byWall(far, now))
	}
}

// Nor does its alarm move while the wall clock is slewed, as it is all the time.
func TestAnAlarmStaysWhereItIsWhileTheClockIsSlewed(t *testing.T) {
	begun := time.Now()
	begun = begun.Add(begun.Truncate(grain).Add(grain/2 + 1).Sub(begun.Round(0))) // amid a grain
	deadline := begun.Add(5 * time.Minute)
	var s sources
	s.add("idle", func(time.Time) time.Time { return deadline })
	want := s.held[0](begun)
	if late := want.Sub(deadline.Round(0)); late < 0 || late >= grain {
		t.Fatalf("the alarm is %v after the deadline", late)
	}
	for _, slewed := range []time.Duration{-200 * time.Microsecond, -time.Nanosecond, 300, 2 * time.Microsecond, 200 * time.Microsecond} {
		if got := s.held[0](monotonic(t, begun.Add(time.Minute+slewed), -slewed)); !got.Equal(want) {
			t.Errorf("slewed by %v: the alarm moved by %v", slewed, got.Sub(want))
		}
	}
	// What is due already is not put off.
	if late := monotonic(t, deadline, 0); s.held[0](late).After(late) {
		t.Error("a deadline that is now was rounded into the future")
	}
}

// monotonic is a reading whose monotonic part is further than its wall clock says.
func monotonic(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	moved := at
	(*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&moved)).ext += int64(by)
	if moved.Sub(at) != by || !moved.Round(0).Equal(at.Round(0)) {
		t.Fatal("package time keeps monotonic readings otherwise now")
	}
	return moved
}

func TestPutBackIsExactByTheMonotonicClock(t *testing.T) {
	last := time.Now()
	for _, c := range []struct{ passed, wall, want time.Duration }{
		{time.Minute, time.Minute, 0},
		{time.Minute, -time.Hour, time.Hour + time.Minute},
		{time.Minute, 20 * time.Second, 40 * time.Second},
		{time.Minute, time.Hour, time.Minute - time.Hour}, // put forward
	} {
		now := monotonic(t, last.Add(c.wall), c.passed-c.wall)
		if got := putBack(last, now); got != c.want {
			t.Errorf("%v pass and the wall clock moves by %v: put back by %v, want %v", c.passed, c.wall, got, c.want)
		}
		if got, want := putBack(last.Round(0), now.Round(0)), max(-c.wall, 0); got != want {
			t.Errorf("the wall clock alone moves by %v: put back by %v, want %v", c.wall, got, want)
		}
	}
	if by := putBack(time.Time{}, last); by != 0 {
		t.Errorf("the first reading: %v", by)
	}
}

// A source may say any time: what becomes of it can be stored.
func TestASourceMaySayAnyTime(t *testing.T) {
	for name, at := range map[string]time.Time{
		"long ago": time.Date(-9, 1, 1, 0, 0, 0, 0, time.UTC), "1969": time.Unix(-1, 0),
		"far off": time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), "the last moment": never.Add(time.Nanosecond),
	} {
		o := newOwner(t)
		o.turn(func(s *Schedule) { s.AddSource("x", func(time.Time) time.Time { return at }) })
		if err := CheckTime(o.alarm.At); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever the wall clock does, as long as it is looked at: nothing runs before
// its time, nothing waits longer than it was to wait at all, and nothing spins.
func TestSchedulesUnderAClockThatJumps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOwner(t)
		delay := time.Duration(rapid.IntRange(1, 7200).Draw(t, "delay")) * time.Second
		every := time.Duration(rapid.IntRange(20, 7200).Draw(t, "every")) * time.Second
		at := monday.Add(time.Duration(rapid.IntRange(-3600, 7200).Draw(t, "at")) * time.Second)
		o.turn(func(s *Schedule) {
			must(t)(s.In(delay, "f", nil, WithID("in")))
			must(t)(s.Every(every, "f", nil, WithID("every")))
			must(t)(s.At(at, "f", nil, WithID("at")))
			must(t)(s.Cron("*/20 * * * *", "f", nil, WithID("cron")))
			must(t)(s.Cron("0 3 * * *", "f", nil, WithID("daily")))
		})
		longest := map[string]time.Duration{"in": delay, "every": every, "cron": 20 * time.Minute, "daily": 24*time.Hour + cronAgain}
		var passed time.Duration // by no clock that jumps
		runs, jumps := map[string]int{}, 0
		daily := map[time.Time]time.Duration{}
		outcome := func(r Run) error {
			runs[r.ID]++
			if r.Scheduled.After(o.now) {
				t.Fatalf("%s ran %v before its time", r.ID, r.Scheduled.Sub(o.now))
			}
			if r.ID == "daily" {
				if before, twice := daily[r.Scheduled]; twice && passed-before < 21*time.Hour && jumps == 0 {
					t.Fatalf("daily ran twice for %v", r.Scheduled)
				}
				daily[r.Scheduled] = passed
			}
			return nil
		}
		pass := func(d time.Duration) {
			end := o.now.Add(d)
			for n := 0; !o.alarm.At.IsZero() && !o.alarm.At.After(end); n++ {
				if n > 100_000 {
					t.Fatal("the alarm spins")
				}
				if o.alarm.At.After(o.now) {
					passed += o.alarm.At.Sub(o.now)
					o.now = o.alarm.At
				}
				o.wake(outcome)
			}
			passed += end.Sub(o.now)
			o.now = end
			o.look()
		}
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				pass(time.Duration(rapid.IntRange(1, 7200).Draw(t, "seconds")) * time.Second)
			},
			"the clock jumps": func(t *rapid.T) {
				jumps++
				by := rapid.SampledFrom([]time.Duration{-400 * 24 * time.Hour, -25 * time.Hour, -time.Hour, -time.Minute, -2 * time.Second, time.Minute, time.Hour, 50 * time.Hour}).Draw(t, "by")
				o.now = o.now.Add(by)
				pass(time.Second) // in which it is looked at
			},
			"restart": func(*rapid.T) { o.restart(Reset{}); o.look() },
			"": func(t *rapid.T) {
				for id, limit := range longest {
					next := o.next(id)
					if next.IsZero() {
						if id != "in" || runs[id] != 1 {
							t.Fatalf("%s is gone after %d runs", id, runs[id])
						}
						continue
					}
					if wait := next.Sub(o.now); wait > limit+backNoticed {
						t.Fatalf("%s is to wait for %v, at most %v was meant", id, wait, limit)
					}
				}
				if next := o.next("at"); !next.IsZero() && !next.Equal(at) {
					t.Fatalf("a time has become %v, want %v", next, at)
				}
				// A jump forward passes one time on the grid or many, and lands just before another.
				if most := int(passed/every) + 1 + 2*jumps; runs["every"] > most {
					t.Fatalf("the interval ran %d times in %v with %d jumps", runs["every"], passed, jumps)
				}
				// Each jump is seen by a look that is up to a second late.
				if passed > delay+time.Duration(jumps)*time.Second && runs["in"] != 1 {
					t.Fatalf("the delay of %v ran %d times in %v", delay, runs["in"], passed)
				}
			},
		})
	})
}

// derived is a target whose objects derive their alarms anew: those named in wants
// have them so far from now.
type derived struct {
	*world
	asked map[storage.ID]int
	wants map[storage.ID]time.Duration
	busy  bool // none can be asked
	most  int  // that were being asked at once
	open  []func()
}

func (d *derived) Rearm(id storage.ID, done func(error)) {
	d.asked[id]++
	if d.flights[id] != nil {
		d.t.Errorf("%v is asked while its alarm runs", id)
	}
	d.open = append(d.open, func() {
		if d.busy {
			done(errBusy)
			return
		}
		if wait, ok := d.wants[id]; ok {
			d.setIn(id, wait)
		}
		done(nil)
	})
	d.most = max(d.most, len(d.open))
}

// answer ends what is being asked, until nothing more is.
func (d *derived) answer() {
	d.settle()
	for len(d.open) > 0 {
		f := d.open[0]
		d.open = d.open[1:]
		f()
		d.settle()
	}
}

func newDerived(t tb, o Options) *derived {
	d := &derived{asked: map[storage.ID]int{}, wants: map[storage.ID]time.Duration{}}
	d.world = &world{
		t: t, store: storage.NewMemory(), clock: clock.NewFake(epoch), opts: o,
		epochs: map[storage.ID]uint64{}, flights: map[storage.ID]*firing{},
	}
	d.target = d
	d.start()
	return d
}

func TestAClockThatIsPutBackHasEachAlarmDerivedAnew(t *testing.T) {
	const objects = 1000
	d := newDerived(t, Options{MaxInFlight: 64})
	defer d.close()
	for i := range objects {
		d.setIn(object(fmt.Sprint(i)), time.Hour+time.Duration(i)*time.Second)
		if i%2 == 0 {
			d.wants[object(fmt.Sprint(i))] = time.Hour // it was a wait
		}
	}
	d.setIn(object("running"), 0)
	d.advance(time.Minute)
	d.wantFired(1)
	for _, by := range []time.Duration{0, backNoticed / 2, -10 * time.Minute} { // none of them
		d.clock.Jump(d.clock.Now().Add(-by))
		d.advance(look)
	}
	if len(d.asked) != 0 {
		t.Fatalf("%d were asked though the clock was not put back", len(d.asked))
	}
	d.clock.Jump(epoch.Add(time.Minute))
	d.advance(2 * look)
	d.answer()
	if len(d.asked) != objects { // by ten minutes
		t.Fatalf("%d of %d were asked", len(d.asked), objects)
	}
	clear(d.asked)
	d.clock.Jump(epoch.Add(-30 * 24 * time.Hour))
	d.advance(look) // within a second
	d.answer()
	if len(d.asked) != objects || d.asked[object("running")] != 0 {
		t.Errorf("%d of %d were asked, and %d times the one that runs", len(d.asked), objects, d.asked[object("running")])
	}
	for id, n := range d.asked {
		if n > 2 { // again if it has moved to where the review still comes by
			t.Errorf("%v was asked %d times", id, n)
		}
	}
	if d.most > 32 {
		t.Errorf("%d were asked at once, at most half of the 64 that may be in flight were to be", d.most)
	}
	d.wantFired(1)
	d.onFire = func(f *firing) { f.complete() }
	d.advance(time.Hour)
	if n := len(d.fired) - 1; n != objects/2 {
		t.Errorf("%d fired within the hour that they were to wait, want %d", n, objects/2)
	}
}

func TestAnObjectThatCantBeAskedIsAskedLater(t *testing.T) {
	d := newDerived(t, Options{})
	defer d.close()
	id := object("a")
	d.setIn(id, time.Hour)
	d.wants[id] = time.Hour
	d.advance(time.Minute)
	d.busy = true
	d.clock.Jump(epoch.Add(-24 * time.Hour))
	for range 10 {
		d.advance(time.Second)
		d.answer()
	}
	if n := d.asked[id]; n < 2 || n > 4 {
		t.Errorf("asked %d times in 10 s, want a back-off", n)
	}
	d.busy = false
	d.advance(time.Minute)
	d.answer()
	d.onFire = func(f *firing) { f.complete() }
	d.advance(time.Hour)
	if d.firedSince(0, id) != 1 {
		t.Error("it still waits for the clock to come back")
	}
	d.advance(look)
	d.wantNothingArmed()
}
