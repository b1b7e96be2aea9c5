package cmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/kalpahost/kalpa/actor"
)

// maxAbandoned is how many turns may go on that overran and were abandoned. They can't
// be stopped, and hold memory and processors: a process with more of them is worn out.
const maxAbandoned = 64

// wornEvery is how often they are counted.
const wornEvery = 2 * time.Second

// errWorn: the process has to be started again.
var errWorn = errors.New("too many turns that overran can't be ended")

// abandonedOf is replaced by a test.
var abandonedOf = (*actor.Host).Abandoned

// worn is nil as long as the process does not need to be started again.
func worn(h *actor.Host) error {
	n := abandonedOf(h)
	if n <= maxAbandoned {
		return nil
	}
	return &hinted{fmt.Errorf("%w: %d go on, and %d may", errWorn, n, maxAbandoned),
		"start it again, as a service manager does by itself; the log names the objects that overran"}
}
