package alarm

import (
	"encoding/json"
	"time"
)

// destroyAfter is how long a condemned object lives, so that the reply to the
// request that asked for it gets out.
const destroyAfter = time.Second

// teardown is the state of a pending destroy.
type teardown struct {
	tearing bool
	tries   int // that have failed
}

// tear reports whether the teardown must begin. Until it has ended it is taken as
// running: if the object crashes it begins again within a heartbeat.
func (s *Schedule) tear(rows Rows) bool {
	begin := !s.tearing
	s.tearing = true
	s.condemn(rows, wall(rows.Now().Add(Heartbeat)))
	return begin
}

// Destroy condemns the object: a durable mark lands with this turn, and about a
// second later an alarm tears the object down, whatever happens in between. The
// alarm is the destroy's from here on. Destroying twice is destroying once.
func (s *Schedule) Destroy() error {
	rows, err := s.load()
	if err != nil || !s.table.Destroy.IsZero() {
		return err
	}
	s.condemn(rows, wall(rows.Now().Add(destroyAfter)))
	return nil
}

// Condemned reports whether a destroy is pending.
func (s *Schedule) Condemned() (bool, error) {
	_, err := s.load()
	return !s.table.Destroy.IsZero(), err
}

func (s *Schedule) condemn(rows Rows, at time.Time) {
	s.table.Destroy = at
	mark, err := json.Marshal(struct{ At time.Time }{at})
	if err != nil {
		mark = nil // a mark that does not decode is one all the same
	}
	rows.Put(destroyKey, mark)
}

// Destroyed is told what the teardown came to. When it has failed it is tried
// again, for ever: nobody else would do it.
func (k *Keeper) Destroyed(failed error) error {
	s := &k.s
	rows, err := s.load()
	if err != nil {
		return err
	}
	s.tearing = false
	if failed != nil {
		wait := BackoffUncounted(s.tries, Jitter(s.o.ID, s.tries))
		s.tries++
		s.o.Logger.Error("a condemned object could not be torn down", "object", s.o.ID.String(), "again", wait, "error", failed)
		s.condemn(rows, wall(rows.Now().Add(wait)))
		return nil
	}
	s.table.Destroy, s.gone = time.Time{}, true
	return nil
}
