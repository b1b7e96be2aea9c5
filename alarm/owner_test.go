package alarm

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/storage"
)

var monday = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// owner is an object's rows, clock and alarm around a Keeper.
type owner struct {
	t      tb
	rows   map[string][]byte
	now    time.Time
	alarm  storage.Alarm
	epoch  uint64
	last   Reset
	keeper *Keeper
	inTurn bool
	start  func(*Schedule) // what each incarnation does when it starts
	known  map[string]bool
	log    bytes.Buffer
	seams  seams.Alarm
	// released counts ends of the last keep-alive.
	released int
	// outcomes are what runs have come to.
	outcomes map[Outcome]int
	// ran are the runs that have begun, in order.
	ran []Run
}

func newOwner(t tb) *owner {
	o := &owner{t: t, rows: map[string][]byte{}, outcomes: map[Outcome]int{}, now: monday, known: map[string]bool{"f": true, "g": true}}
	o.restart(Reset{})
	return o
}

// restart begins another incarnation; the rows are what there is.
func (o *owner) restart(last Reset) {
	o.epoch++
	o.last = last
	o.keeper = NewKeeper(KeeperOptions{
		ID: storage.ID{Class: "test", Name: "object"}, Epoch: o.epoch,
		Owner: ownerOf{o}, Logger: slog.New(slog.NewTextHandler(&o.log, nil)), Seams: o.seams,
	})
	if o.start != nil {
		o.start(o.keeper.Schedule())
	}
}

// ownerOf is what a schedule asks.
type ownerOf struct{ o *owner }

func (w ownerOf) Turn() (Rows, error) {
	if !w.o.inTurn {
		return nil, errors.New("not in a turn")
	}
	return turn(w), nil
}

func (w ownerOf) Known(name string) bool  { return w.o.known[name] }
func (w ownerOf) Last() Reset             { return w.o.last }
func (w ownerOf) Platform(err error) bool { return errors.Is(err, errPlatform) }
func (w ownerOf) Count(of Outcome)        { w.o.outcomes[of]++ }
func (w ownerOf) Released()               { w.o.released++ }

var errPlatform = errors.New("the platform's own")

// turn runs f as a turn: the alarm is derived at its end.
func (o *owner) turn(f func(s *Schedule)) {
	o.t.Helper()
	o.inTurn = true
	if f != nil {
		f(o.keeper.Schedule())
	}
	a, err := o.keeper.Derive(o.alarm)
	o.inTurn = false
	if err != nil {
		o.t.Fatal(err)
	}
	o.alarm = a
}

// wake is the alarm, and then a turn for each run that it begins. outcome says what
// a run comes to; errAwaits leaves it in progress.
func (o *owner) wake(outcome func(Run) error) (w Work) {
	o.t.Helper()
	o.turn(func(*Schedule) {
		var err error
		if w, err = o.keeper.Wake(o.alarm.Retry); err != nil {
			o.t.Fatal(err)
		}
		if w.Alarm {
			if err := o.keeper.AlarmRan(nil); err != nil {
				o.t.Fatal(err)
			}
		}
	})
	for runs := w.Runs; len(runs) > 0; {
		run := runs[0]
		runs = append(runs[1:], o.run(run, outcome)...)
	}
	return w
}

var errAwaits = errors.New("in progress")

func (o *owner) run(run Run, outcome func(Run) error) (next []Run) {
	o.t.Helper()
	o.turn(func(*Schedule) {
		ctx, run, err := o.keeper.Begin(context.Background(), run)
		if err != nil {
			o.t.Fatal(err)
		}
		var failed error
		if ctx != nil {
			o.ran = append(o.ran, run)
			if outcome != nil {
				failed = outcome(run)
			}
		}
		if errors.Is(failed, errAwaits) {
			return
		}
		if next, err = o.keeper.Ran(run, failed); err != nil {
			o.t.Fatal(err)
		}
	})
	return next
}

// until moves the clock alarm by alarm, and runs them.
func (o *owner) until(end time.Time, outcome func(Run) error) {
	o.t.Helper()
	for n := 0; !o.alarm.At.IsZero() && !o.alarm.At.After(end); n++ {
		if n > 10_000 {
			o.t.Fatal("the alarm spins")
		}
		if o.alarm.At.After(o.now) {
			o.now = o.alarm.At
		}
		o.wake(outcome)
	}
	o.now = end
}

func (o *owner) times() []string {
	var all []string
	for _, r := range o.ran {
		all = append(all, r.Scheduled.Format("15:04:05"))
	}
	return all
}

func (o *owner) entries() (all []Entry) {
	o.t.Helper()
	o.turn(func(s *Schedule) {
		var err error
		if all, err = s.List(); err != nil {
			o.t.Fatal(err)
		}
	})
	return all
}

func (o *owner) aside() map[string]Aside {
	o.t.Helper()
	all := map[string]Aside{}
	o.turn(func(s *Schedule) {
		for a, err := range s.SetAside() {
			if err != nil {
				o.t.Fatal(err)
			}
			all[a.ID] = a
		}
	})
	return all
}

// turn is one turn of an object.
type turn struct{ o *owner }

func (t turn) Get(key string) ([]byte, error) { return t.o.rows[key], nil }
func (t turn) Put(key string, value []byte)   { t.o.rows[key] = append([]byte{}, value...) }
func (t turn) Delete(key string)              { delete(t.o.rows, key) }
func (t turn) Now() time.Time                 { return t.o.now }
func (t turn) List(r storage.Range) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		n := 0
		for _, k := range slices.Sorted(maps.Keys(t.o.rows)) {
			if !r.Holds(k) {
				continue
			}
			if n++; r.Limit > 0 && n > r.Limit {
				return
			}
			if !yield(storage.Entry{Key: k, Value: t.o.rows[k]}, nil) {
				return
			}
		}
	}
}

// must is a registration that must succeed.
func must(t tb) func(Entry, error) Entry {
	return func(e Entry, err error) Entry {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

func (o *owner) logged(s string) bool { return strings.Contains(o.log.String(), s) }

// A source may say "now": rounding must not make that a moment that never comes.
func TestSourceThatWantsNowIsDue(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.UTC) // not on a whole microsecond
	var s sources
	s.add("now", func(now time.Time) time.Time { return now })
	if !s.due(now, 0) {
		t.Error("the source wants now and is not due: the alarm would fire for nothing, again and again")
	}
	var later sources
	later.add("later", func(now time.Time) time.Time { return now.Add(time.Nanosecond) })
	if later.due(now, 0) {
		t.Error("a time after now is due")
	}
}
