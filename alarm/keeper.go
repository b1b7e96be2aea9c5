package alarm

import (
	"log/slog"

	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/storage"
)

// Owner is the incarnation whose schedule it is, as the schedule sees it.
type Owner interface {
	// Turn is the turn that is running, or an error when none is.
	Turn() (Rows, error)
	// Known reports whether the object has a callback of that name.
	Known(callback string) bool
	// Last is the reset that ended the incarnation before this one.
	Last() Reset
	// Platform reports errors of callbacks that are the platform's and likely to
	// pass: they cost no attempt.
	Platform(error) bool
	// Released is told that the last keep-alive was released, from any goroutine:
	// the host makes a turn. It must not block.
	Released()
	// Count is told what runs of schedules come to.
	Count(Outcome)
}

// KeeperOptions say whose schedule it is. Owner and Logger are required.
type KeeperOptions struct {
	ID    storage.ID
	Epoch uint64
	Owner Owner
	// Fresh: nothing was ever committed to the object, so that there are no rows to read.
	Fresh  bool
	Logger *slog.Logger
	Seams  seams.Alarm
}

// Keeper is the host's side of a [Schedule]: it derives the alarm, and says what
// an alarm has to run. It is used in turns of the object only.
type Keeper struct{ s Schedule }

// NewKeeper makes an incarnation's schedule. It reads nothing.
func NewKeeper(o KeeperOptions) *Keeper {
	return &Keeper{Schedule{o: o, loaded: o.Fresh, sources: sources{id: o.ID, log: o.Logger}}}
}

// Schedule is the object's side.
func (k *Keeper) Schedule() *Schedule { return &k.s }

// Derive is what the object's alarm row has to be at the end of a turn; was is what
// it has been.
func (k *Keeper) Derive(was storage.Alarm) (storage.Alarm, error) {
	s := &k.s
	rows, err := s.load()
	if err != nil || s.gone {
		return storage.Alarm{}, err
	}
	now := rows.Now().Round(0)
	s.sources.resume(was, now)
	answer := Recompute(s.table, s.alive.at(now), now)
	framework := answer
	if !s.o.Seams.NoReassert {
		answer = Reassert(answer, s.sources.held, rows.Now()) // the whole cure
	}
	if s.o.Seams.DeleteLast && framework.Delete() {
		answer = framework
	}
	if answer.Delete() {
		return storage.Alarm{}, nil
	}
	return storage.Alarm{At: wall(answer.At), Retry: s.sources.failures}, nil
}

// Busy reports that the incarnation must not be evicted: a keep-alive is held, or
// a run is in progress.
func (k *Keeper) Busy() bool { return k.s.alive.held() || len(k.s.cancels) > 0 }

// AlarmRan is told what the owner's handler came to. A failure is retried with
// the back-off of alarms, for as long as the source wants it.
func (k *Keeper) AlarmRan(err error) error {
	rows, turnErr := k.s.load()
	if turnErr != nil {
		return turnErr
	}
	k.s.sources.ran(rows.Now(), err, !k.s.table.Destroy.IsZero())
	return nil
}

// Clear deletes all rows of the object with f, and the schedules with them. A
// pending destroy goes on.
func (k *Keeper) Clear(f func()) error {
	rows, err := k.s.load()
	if err != nil {
		return err
	}
	f()
	k.s.cleared(rows)
	return nil
}

// Reload makes the schedule read its rows again: the turn has taken back what it
// had written.
func (k *Keeper) Reload() { k.s.loaded = false }
