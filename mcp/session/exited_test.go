package session

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kalpahost/kalpa/mcp"
)

// A runtime that was ended for what it took is lost for that, by the name that such a
// reset has.
func TestTheLossSaysWhatARuntimeWasEndedFor(t *testing.T) {
	for reason, err := range map[string]error{
		"memory_limit": fmt.Errorf("the server took 3 GiB: %w", mcp.ErrMemoryLimit),
		"cpu_limit":    fmt.Errorf("the server took an hour: %w", mcp.ErrCPULimit),
		"exited":       errors.New("the server exited with status 1"),
	} {
		if l := lostToExit(err); l.Reason != reason || l.Sentence == "" || l.Retryable != (reason != "cpu_limit") {
			t.Errorf("%v: %+v", err, l)
		}
	}
}
