package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrTooMany: a server, or one caller of it, has as many sessions as it may.
var ErrTooMany = errors.New("too many sessions")

// census is how many sessions there are, by what bounds them. It may be off by those
// that were under way when a session was reset, and is counted anew when it stands in
// somebody's way.
type census struct {
	mu      sync.Mutex
	servers map[string]int
	callers map[belongs]int
	entered map[belongs]int // while they are counted; nil: nobody counts
	doubted chan struct{}   // somebody was refused
}

type belongs struct{ server, subject string }

// enter counts a session that is about to be opened, unless it is one too many.
func (c *census) enter(srv *Server, subject string) error {
	if srv == nil {
		return nil // the session says what is wrong
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	who := belongs{srv.Name, subject}
	var err error
	switch {
	case srv.MaxSessions > 0 && c.servers[srv.Name] >= srv.MaxSessions:
		err = fmt.Errorf("%w: the server %q has %d, and the limit is %d", ErrTooMany, srv.Name, c.servers[srv.Name], srv.MaxSessions)
	case srv.MaxPerCaller > 0 && subject != "" && c.callers[who] >= srv.MaxPerCaller:
		err = fmt.Errorf("%w: you have %d on the server %q, and the limit is %d: end some of them", ErrTooMany, c.callers[who], srv.Name, srv.MaxPerCaller)
	default:
		c.add(who, 1)
		if c.entered != nil {
			c.entered[who]++
		}
		return nil
	}
	select {
	case c.doubted <- struct{}{}:
	default:
	}
	return err
}

// leave counts a session out of which nothing is left, or that did not come to be.
func (c *census) leave(server, subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if who := (belongs{server, subject}); c.servers[server] > 0 { // else it has not been counted yet
		c.add(who, -1)
	}
}

func (c *census) add(who belongs, n int) {
	if c.servers == nil {
		c.servers, c.callers = map[string]int{}, map[belongs]int{}
	}
	if c.servers[who.server] += n; c.servers[who.server] <= 0 {
		delete(c.servers, who.server)
	}
	if who.subject == "" {
		return
	}
	if c.callers[who] += n; c.callers[who] <= 0 {
		delete(c.callers, who)
	}
}

// recountPause is the shortest time between two counts.
const recountPause = 10 * time.Second

// Census counts the sessions in storage, and again when somebody was refused for
// their number, until ctx ends. Without it only those count that were opened since the
// start.
func (s *Service) Census(ctx context.Context) {
	doubted := make(chan struct{}, 1)
	s.census.mu.Lock()
	s.census.doubted = doubted
	s.census.mu.Unlock()
	for {
		if err := s.count(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the sessions could not be counted; limits of their number may be off", "error", err)
		}
		pause := make(chan struct{})
		timer := s.host.Clock().AfterFunc(recountPause, func() { close(pause) })
		select {
		case <-pause:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		select {
		case <-doubted:
		case <-ctx.Done():
			return
		}
	}
}

// countPage is how many sessions are looked up at once.
const countPage = 1000

func (s *Service) count(ctx context.Context) error {
	var fresh census
	s.census.mu.Lock()
	s.census.entered = map[belongs]int{}
	s.census.mu.Unlock()
	store := s.host.Store()
	for after := ""; ; {
		ids, err := store.Objects(ctx, Class, after, countPage)
		if err != nil {
			return err
		}
		for _, id := range ids {
			row, err := store.Get(ctx, id, keyMeta)
			if err != nil {
				return err
			}
			var m meta
			if row != nil && json.Unmarshal(row, &m) == nil {
				fresh.add(belongs{m.Server, m.Principal.Subject}, 1)
			}
		}
		if len(ids) < countPage {
			break
		}
		after = ids[len(ids)-1].Name
	}
	s.census.mu.Lock()
	defer s.census.mu.Unlock()
	// They may have been counted as well: too many, until the next count.
	// In any order: they are added up.
	for who, n := range s.census.entered {
		fresh.add(who, n)
	}
	s.census.servers, s.census.callers, s.census.entered = fresh.servers, fresh.callers, nil
	return nil
}
