package session

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// roster is the servers that are hosted now. Sessions look a server up whenever
// something happens to them; the generation of a runtime keeps the one that it was
// built from.
type roster struct {
	servers atomic.Pointer[map[string]*Server]
}

func newRoster(servers map[string]*Server) *roster {
	r := &roster{}
	r.servers.Store(&servers)
	return r
}

func (r *roster) all() map[string]*Server { return *r.servers.Load() }

// get finds a server; nil when this host does not have it.
func (r *roster) get(name string) *Server { return r.all()[name] }

// hosting checks servers, and fills in their defaults.
func hosting(servers []Server) (map[string]*Server, error) {
	all := map[string]*Server{}
	var errs []error
	for _, srv := range servers {
		srv.defaults()
		errs = append(errs, srv.validate())
		if all[srv.Name] != nil {
			errs = append(errs, fmt.Errorf("two servers are named %q", srv.Name))
		}
		all[srv.Name] = &srv
	}
	return all, errors.Join(errs...)
}

// Configure changes the servers that sessions may be opened on, while sessions are
// open. What a server's policy says holds from the next thing that happens to a session
// of it; its plugin builds the runtimes from the next generation on. A session whose
// server is gone is kept, and refused until it is there again; its runtime is reclaimed
// when it is idle. On an error nothing has changed.
func (s *Service) Configure(servers []Server) error {
	all, err := hosting(servers)
	if err != nil {
		return err
	}
	// In any order: they are figures by name.
	for name := range all {
		s.underWay.begin(name)
		for isolate := range s.host.Isolates() {
			s.telemetry.begin(place{isolate, name})
		}
	}
	s.servers.servers.Store(&all)
	return nil
}

// refresh takes over what has changed about the session's server. One that is gone
// leaves its policy, by which its runtime is reclaimed.
func (s *state) refresh() {
	if s.meta == nil {
		return
	}
	if cfg := s.servers.get(s.meta.Server); cfg != nil {
		s.cfg = cfg
	}
}
