package alarm

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// In runs a callback once, d from now.
func (s *Schedule) In(d time.Duration, callback string, payload []byte, o ...Option) (Entry, error) {
	r := registration{row: row{Entry: Entry{Kind: Delay, Spec: d.String(), Callback: callback}}}
	return s.register("in", r, payload, o, func(r *registration, now time.Time) error {
		if d < 0 {
			return fmt.Errorf("%w: %v from now", ErrTime, d)
		}
		r.Due = now.Add(d)
		return nil
	})
}

// At runs a callback once, at a time. A time in the past means now.
func (s *Schedule) At(at time.Time, callback string, payload []byte, o ...Option) (Entry, error) {
	r := registration{row: row{Entry: Entry{Kind: Moment, Spec: at.UTC().Format(time.RFC3339Nano), Callback: callback}}}
	return s.register("at", r, payload, o, func(r *registration, _ time.Time) error {
		r.Due = at
		return nil
	})
}

// Cron runs a callback again and again, by a cron expression of 5 fields, of 6
// with seconds first or a year last, or of 7 with both; in UTC, or in the zone of
// [InZone]. Where the clocks change, what runs every hour runs at every real
// hour, and what runs at fixed hours runs once. Runs that were missed are one run.
func (s *Schedule) Cron(spec, callback string, payload []byte, o ...Option) (Entry, error) {
	r := registration{row: row{Entry: Entry{Kind: Cron, Spec: spec, Callback: callback}}, idempotent: true}
	return s.register("cron", r, payload, o, func(r *registration, now time.Time) error {
		c, err := parseCron(spec, r.Zone)
		if err != nil {
			return err
		}
		at, ok := c.next(now)
		if !ok {
			return fmt.Errorf("%w: %q does not match any time of the next %d years", ErrCron, spec, cronHorizon)
		}
		r.Due = at
		return nil
	})
}

// Every runs a callback again and again: first d from now, and then on the grid
// that begins there, so that runs don't drift. A run that is still going on when
// the next is due is waited for; what was missed is not caught up with.
func (s *Schedule) Every(d time.Duration, callback string, payload []byte, o ...Option) (Entry, error) {
	r := registration{row: row{Entry: Entry{Kind: Interval, Spec: d.String(), Callback: callback}}, idempotent: true}
	r.Policy.Limit = DefaultHung
	return s.register("every", r, payload, o, func(r *registration, now time.Time) error {
		r.Due = now.Add(d)
		return checkInterval(d)
	})
}

// register checks everything, and then writes.
func (s *Schedule) register(op string, r registration, payload []byte, o []Option, plan func(*registration, time.Time) error) (Entry, error) {
	refuse := func(err error, hint string) (Entry, error) {
		return Entry{}, &Error{Op: op, ID: s.o.ID, Err: err, Hint: hint}
	}
	rows, err := s.load()
	if err != nil {
		return refuse(err, "")
	}
	now := rows.Now().Round(0)
	r.Policy = Policy{DefaultAttempts, DefaultBase, cmp.Or(r.Policy.Limit, DefaultLimit)}
	for _, option := range o { // a zero that is given is no default
		option(&r)
	}
	switch {
	case !s.table.Destroy.IsZero():
		return refuse(ErrCondemned, "")
	case !s.o.Owner.Known(r.Callback):
		return refuse(fmt.Errorf("%w: %.100q", ErrCallback, r.Callback), "define it with actor.Callback before the host starts")
	case len(payload) > MaxPayload:
		return refuse(fmt.Errorf("%w: %d bytes, at most %d", ErrPayload, len(payload), MaxPayload), "store it, and let the payload name it")
	case r.Zone != "" && r.Kind != Cron:
		return refuse(fmt.Errorf("%w: %q for what is not cron", ErrZone, r.Zone), "give InZone to Cron only")
	}
	if err := r.Policy.validate(); err != nil {
		return refuse(err, "see alarm.Policy")
	}
	if err := plan(&r, now); err != nil {
		return refuse(err, "")
	}
	if err := CheckTime(r.Due); err != nil {
		return refuse(err, "")
	}
	r.Due = wall(r.Due)
	r.Next, r.Version, r.Sized, r.Sum = r.Due, rowVersion, len(payload) > 0, sum(&r.row, payload)
	if r.ID, err = s.name(&r); err != nil {
		return refuse(err, "an ID is 1 to 256 bytes of UTF-8 that don't begin with ~")
	}
	old := s.table.get(r.ID)
	switch {
	case old != nil && old.Sum == r.Sum:
		if old.Policy != r.Policy {
			s.table.set(old, func(o *row) { o.Policy = r.Policy })
			s.store(rows, old)
		}
		return old.entry(payload), nil // the alarm is derived all the same
	case old == nil && s.table.len() >= MaxSchedules:
		return refuse(fmt.Errorf("%w: %d", ErrTooMany, MaxSchedules), "cancel some, or use more objects")
	case old == nil:
		if err := s.stepAside(rows, r.ID); err != nil {
			return refuse(err, "")
		}
	}
	s.drop(rows, r.ID)
	fresh := r.row
	if fresh.Sized {
		rows.Put(payloadPrefix+fresh.ID, slices.Clone(payload))
	}
	s.table.set(&fresh, nil)
	s.store(rows, &fresh)
	return fresh.entry(payload), nil
}

// name is the ID that a registration gets.
func (s *Schedule) name(r *registration) (string, error) {
	switch {
	case r.id != nil:
		if id := *r.id; id == "" || len(id) > MaxID || !utf8.ValidString(id) || strings.HasPrefix(id, "~") {
			return "", fmt.Errorf("%w: %.100q", ErrID, id)
		}
		return *r.id, nil
	case r.idempotent:
		return "~" + r.Sum, nil
	}
	s.named++
	return fmt.Sprintf("~%x.%x", s.o.Epoch, s.named), nil
}

// sum tells registrations apart.
func sum(r *row, payload []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00", r.Kind, r.Callback, r.Spec, r.Zone)
	h.Write(payload)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// entry is what a user sees of the row.
func (r *row) entry(payload []byte) Entry {
	e := r.Entry
	if r.Running != nil {
		running := *r.Running
		e.Running = &running
	}
	e.Payload = payload
	return e
}
