package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/mcp/session"
)

// briefly makes sessions idle soon: their servers are reclaimed after a second, and what
// was delivered is forgotten then as well.
var briefly = []string{"--idle-timeout", "1s", "--retention", "1s"}

// adminAddress is where a watched host is asked.
func adminAddress(folder string) string { return "unix:" + filepath.Join(folder, "admin") }

// quietLimit is how long a host may take until nothing of its sessions is in memory.
const quietLimit = 10 * time.Minute

// quiet waits until no session of a watched host has a runtime, or is in memory.
func (s *server) quiet(ctx context.Context) error {
	host, err := admin.NewClient(adminAddress(s.folder), "")
	if err != nil {
		return err
	}
	for limit := time.Now().Add(quietLimit); ; {
		o, err := host.Overview(ctx, false)
		if err != nil {
			return err
		}
		if o.Resident == 0 && o.InMemory[session.Class] == 0 {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("after %v %d runtimes are resident, and %d sessions in memory", quietLimit, o.Resident, o.InMemory[session.Class])
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
