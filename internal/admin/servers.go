package admin

import (
	"net/http"
	"time"
)

// Server is one of GET /v1/servers: how a server fares.
type Server struct {
	Hosted
	// State is idle (nothing runs), running, crash_loop (it has ended at its start too often,
	// and is not started before RetryAt), or cannot_start: Problem says why.
	State    string `json:"state"`
	Problem  string `json:"problem,omitempty"` // what keeps it from being started
	Resident int    `json:"resident"`          // sessions that have a runtime of it
	Memory   int64  `json:"memory,omitempty"`  // of its processes, in bytes; none: not known
	// Crashes is how many in a row have ended before they had said anything.
	Crashes int       `json:"crashes,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	Exits   []Exit    `json:"exits,omitempty"` // the last that have ended by themselves, oldest first
}

// Exit is how a process of a server has ended by itself.
type Exit struct {
	At      time.Time `json:"at"`
	Session string    `json:"session"`
	PID     int       `json:"pid"`
	Lived   float64   `json:"lived"`  // seconds
	Silent  bool      `json:"silent"` // it had said nothing
	Why     string    `json:"why"`
	Stderr  string    `json:"stderr,omitempty"` // the end of it
}

// Servers is the answer of GET /v1/servers.
type Servers struct {
	Servers []Server `json:"servers"`
}

func (a *api) servers(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	all := Servers{Servers: []Server{}}
	if a.o.Servers != nil {
		all.Servers = append(all.Servers, a.o.Servers()...)
	} else {
		for _, s := range a.o.About.Servers {
			all.Servers = append(all.Servers, Server{Hosted: s})
		}
	}
	residents := a.o.Sessions.ResidentsOf()
	for n := range all.Servers {
		s := &all.Servers[n]
		s.Resident = residents[s.Name]
		switch {
		case s.State != "":
		case s.Resident > 0:
			s.State = "running"
		default:
			s.State = "idle"
		}
	}
	return all, nil
}
