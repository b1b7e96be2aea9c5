package alarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Whatever the reason: a schedule that can't be run is kept whole, with its payload,
// and can be registered again from that.
func TestWhatIsSetAsideIsKeptWhole(t *testing.T) {
	const payload = `{"invoice":4711}`
	for why, c := range map[string]struct {
		spoil func(o *owner)
		run   error
	}{
		"the code has lost the callback": {spoil: func(o *owner) { delete(o.known, "g") }},
		"the row does not decode": {spoil: func(o *owner) {
			o.rows[entryPrefix+"bill"] = []byte(strings.Replace(string(o.rows[entryPrefix+"bill"]), `"v":1`, `"v":2`, 1))
		}},
		"the callback can't make anything of it": {run: fmt.Errorf("%w: of no use", ErrUnrunnable)},
		"poison": {spoil: func(o *owner) {
			for range MaxStrikes {
				o.now = o.alarm.At
				o.wake(func(Run) error { return errAwaits })
				o.restart(Reset{Epoch: o.epoch, Schedule: "bill", Own: true, Memory: true})
				o.look()
			}
			o.ran = nil
		}},
	} {
		t.Run(why, func(t *testing.T) {
			o := newOwner(t)
			o.turn(func(s *Schedule) { must(t)(s.In(time.Minute, "g", []byte(payload), WithID("bill"))) })
			found := string(o.rows[entryPrefix+"bill"])
			if c.spoil != nil {
				c.spoil(o)
				o.restart(Reset{})
				o.look()
			}
			o.until(monday.Add(time.Hour), func(Run) error { return c.run })
			if runs := len(o.ran); c.run == nil && runs != 0 || c.run != nil && runs != 1 {
				t.Errorf("it ran %d times", runs)
			}
			o.known["g"] = true
			a := o.aside()["bill"]
			if string(a.Payload) != payload || !o.logged("schedule=bill") || o.outcomes[SetAside] != 1 {
				t.Errorf("set aside as %+v, reported as %v", a, o.outcomes)
			}
			var e Entry
			if err := json.Unmarshal(a.Row, &e); err != nil || e.Callback != "g" || e.Running != nil {
				t.Errorf("the row is %q, and was %q: %v", a.Row, found, err)
			}

			// The ID is free, and what takes it does not touch what was set aside.
			o.turn(func(s *Schedule) { must(t)(s.In(time.Minute, "g", []byte("new"), WithID("bill"))) })
			for range 2 {
				if a := o.aside()["bill"]; string(a.Payload) != payload {
					t.Errorf("after another has taken its ID the payload is %q", a.Payload)
				}
				o.restart(Reset{})
			}
			o.ran = nil
			o.until(o.now.Add(time.Hour), nil)
			if len(o.ran) != 1 || string(o.ran[0].Payload) != "new" {
				t.Errorf("what has taken its ID ran as %+v", o.ran)
			}
			if a := o.aside()["bill"]; string(a.Payload) != payload {
				t.Errorf("after that the payload is %q", a.Payload)
			}
			o.turn(func(s *Schedule) {
				if ok, err := s.Discard("bill"); !ok || err != nil {
					t.Error(ok, err)
				}
				if ok, err := s.Discard("bill"); ok || err != nil {
					t.Error(ok, err)
				}
			})
			if len(o.rows) != 0 {
				t.Errorf("discarded, and there are %v", o.rows)
			}
		})
	}
}

// Discarding what was set aside leaves the schedule alone that has its ID now; and the
// later of two that were set aside is kept.
func TestAnAsideAndAScheduleOfOneID(t *testing.T) {
	o := newOwner(t)
	aside := func(payload string) {
		o.turn(func(s *Schedule) { must(t)(s.In(0, "f", []byte(payload), WithID("x"))) })
		o.wake(func(Run) error { return ErrUnrunnable })
	}
	aside("first")
	aside("second")
	if all := o.aside(); len(all) != 1 || string(all["x"].Payload) != "second" {
		t.Errorf("%+v", all)
	}
	aside("")
	o.turn(func(s *Schedule) { must(t)(s.In(0, "f", []byte("third"), WithID("x"))) })
	if all := o.aside(); all["x"].Payload != nil {
		t.Errorf("what had no payload is said to have had that of what has its ID now: %+v", all)
	}
	o.turn(func(s *Schedule) { _, _ = s.Discard("x") })
	o.wake(nil)
	if last := o.ran[len(o.ran)-1]; string(last.Payload) != "third" || len(o.rows) != 0 {
		t.Errorf("ran %+v, left %v", last, o.rows)
	}
}

// A deployment without a callback loses none of all the schedules that an object can
// have; beyond that there is a bound.
func TestThereIsRoomToSetAllAside(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) {
		for i := range MaxSchedules {
			must(t)(s.In(0, "g", []byte("x"), WithID(fmt.Sprint(i))))
		}
	})
	delete(o.known, "g")
	o.wake(nil)
	if n := len(o.aside()); n != MaxSchedules {
		t.Errorf("%d are kept", n)
	}
	o.restart(Reset{})
	o.turn(func(s *Schedule) { must(t)(s.In(0, "f", []byte("y"), WithID("one more"))) })
	o.wake(func(Run) error { return ErrUnrunnable })
	if n := len(o.aside()); n != MaxSetAside || !o.logged("kept=false") || len(o.rows) != 2*MaxSetAside {
		t.Errorf("one more: %d are kept, in %d rows", n, len(o.rows))
	}
}

// Cron that was stored and can't be run (by another version, or with another database
// of time zones) does not run even once.
func TestStoredCronThatCannotRunIsSetAsideUnrun(t *testing.T) {
	for _, spec := range []string{"61 * * * *", "nonsense", "0 0 30 2 *", "0 0 1 1 * 2020"} {
		o := newOwner(t)
		o.turn(func(s *Schedule) { must(t)(s.Cron("0 * * * *", "f", nil, WithID("x"))) })
		o.rows[entryPrefix+"x"] = []byte(strings.Replace(string(o.rows[entryPrefix+"x"]), "0 * * * *", spec, 1))
		o.restart(Reset{})
		o.until(monday.Add(3*time.Hour), nil)
		if _, aside := o.aside()["x"]; !aside || len(o.ran) != 0 || !o.logged("schedule=x") {
			t.Errorf("%q: ran %d times, set aside: %t", spec, len(o.ran), aside)
		}
	}
	// The last run of what ends is a run like any other.
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.Cron("0 0 1 1 * 2027", "f", nil)) })
	o.until(monday.AddDate(1, 0, 0), nil)
	if len(o.ran) != 1 || len(o.aside()) != 0 || len(o.rows) != 0 {
		t.Errorf("what ends ran %d times, %d rows are left", len(o.ran), len(o.rows))
	}
}

func TestAPayloadThatIsGoneIsReported(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.In(time.Hour, "f", []byte("x"), WithID("x"))) })
	delete(o.rows, payloadPrefix+"x")
	o.turn(func(s *Schedule) {
		e, ok, err := s.Get("x")
		var typed *Error
		if ok || !errors.Is(err, ErrPayloadGone) || !errors.As(err, &typed) || e.Callback != "f" {
			t.Errorf("got %+v %t %v", e, ok, err)
		}
	})
}
