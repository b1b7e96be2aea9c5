package cmd

import (
	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/mcp/stdio"
)

// hosted is what the admin API says of a server.
func (h *host) hosted(s config.Server) admin.Hosted {
	return admin.Hosted{Name: s.Name, URL: h.url(s.Name), Runs: runs(s)}
}

// fares tells how the servers fare that are hosted now.
func (h *host) fares() (all []admin.Server) {
	h.changing.Lock()
	defer h.changing.Unlock()
	for _, s := range h.config().Servers {
		one := admin.Server{Hosted: h.hosted(s)}
		if c := h.children[s.Name]; c != nil && s.Plugin == "" {
			status(&one, c.Status())
		}
		all = append(all, one)
	}
	return all
}

// status puts what a plugin knows of its processes in the API's words.
func status(s *admin.Server, of stdio.Status) {
	s.State, s.Problem, s.Memory, s.Crashes, s.RetryAt = of.State, of.Problem, of.Memory, of.Crashes, of.RetryAt
	for _, e := range of.Exits {
		s.Exits = append(s.Exits, admin.Exit{
			At: e.At.UTC(), Session: e.Session, PID: e.Pid, Lived: e.Lived.Seconds(), Silent: e.Silent, Why: e.Why, Stderr: e.Stderr,
		})
	}
}
