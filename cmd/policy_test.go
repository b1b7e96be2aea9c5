package cmd_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/mcp/session"
)

// Configuration and sessions know nothing of one another: their defaults, what gives
// way to what, and what is valid are the same all the same.
func TestAPolicyMeansToSessionsWhatItSaysInAFile(t *testing.T) {
	for file, p := range map[string]session.Policy{
		"{}":                                          {},
		"{running_ceiling: 2s}":                       {RunningCeiling: 2 * time.Second},
		"{lifetime: 10m, paused_ceiling: 3m}":         {Lifetime: 10 * time.Minute, PausedCeiling: 3 * time.Minute},
		"{idle_timeout: 0, lifetime: 0}":              {IdleTimeout: -1, Lifetime: -1},
		"{lifetime: 3650d, running_ceiling: 3650d}":   {Lifetime: session.MaxDuration, RunningCeiling: session.MaxDuration},
		"{max_log: 1MiB, max_owed: 1, retention: 1s}": {MaxLog: 1 << 20, MaxOwed: 1, Retention: time.Second},
	} {
		in := config.Input{Plugin: "demo", Plugins: []string{"demo"}, File: "kalpa.yaml", Data: []byte(file)}
		c, _, problems := config.Load(in)
		if len(problems) > 0 {
			t.Errorf("%s: %v", file, problems)
			continue
		}
		if diff := cmp.Diff(p.WithDefaults(), session.Policy(c.Servers[0].Policy)); diff != "" {
			t.Errorf("%s (-session +file):\n%s", file, diff)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
