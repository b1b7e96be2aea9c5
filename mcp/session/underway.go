package session

import "sync"

// underWay is how many requests wait for an answer on each server, in all its sessions
// together. It is in memory: what the incarnation of a session has in its ledger counts
// for as long as it lives, whether a client listens or not.
type underWay struct {
	mu      sync.Mutex
	servers map[string]int
}

// begin makes a server known, so that one of which nothing was ever asked has 0.
func (u *underWay) begin(server string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.add(server, 0)
}

func (u *underWay) add(server string, n int) {
	if u.servers == nil {
		u.servers = map[string]int{}
	}
	u.servers[server] += n
}

// each tells the number of each server.
func (u *underWay) each(f func(server string, n int)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	// In any order: they are figures by name.
	for server, n := range u.servers {
		f(server, n)
	}
}

// share is what one incarnation adds to them.
type share struct {
	of     *underWay
	server string // empty before the first request
	n      int
	over   bool
}

// take adds n requests, unless the server would have more than most; most 0: any
// number. It returns how many there were.
func (s *share) take(server string, n, most int) (there int, ok bool) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if there = s.of.servers[server]; most > 0 && there+n > most {
		return there, false
	}
	s.server = server
	s.add(n)
	return there, true
}

// set makes the share what the ledger has by now, unless the incarnation is over.
func (s *share) set(server string, n int) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.server == "" {
		s.server = server
	}
	s.add(n - s.n)
}

// end takes the share out: the incarnation is over.
func (s *share) end() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.add(-s.n)
	s.over = true
}

func (s *share) add(n int) {
	if s.over || n == 0 {
		return
	}
	s.n += n
	s.of.add(s.server, n)
}
