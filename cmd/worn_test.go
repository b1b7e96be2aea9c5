package cmd

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kalpahost/kalpa/actor"
)

// A process in which too many turns go on that can't be stopped ends in order, and says
// by its exit code that it is to be started again.
func TestAWornOutProcessEndsInOrder(t *testing.T) {
	var looks atomic.Int64
	abandonedOf = func(*actor.Host) int { return maxAbandoned - 1 + int(looks.Add(1)) } // the first is not too many
	defer func() { abandonedOf = (*actor.Host).Abandoned }()
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--data", t.TempDir()}, &stdout, &stderr)
	if code != ExitWorn || looks.Load() != 2 {
		t.Errorf("exit code %d after %d looks", code, looks.Load())
	}
	for _, want := range []string{"ending in order, to be started again", "65 go on, and 64 may", "start it again"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &stderr)
		}
	}
}
