package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// listener holds a session's GET stream open. Whenever the stream ends it comes back
// with the last event id that it has seen, as official clients do, until the test
// ends.
type listener struct {
	opened atomic.Int64 // streams so far
	bad    []string     // what the host should not have done
}

// listening tells how a client listens.
type listening struct {
	pause time.Duration // before it comes back
	cut   time.Duration // after which it leaves by itself; 0: never
}

// listen begins to listen, and returns when the stream is open.
func (c *client) listen(o listening) *listener {
	c.t.Helper()
	l := &listener{}
	ended := make(chan struct{})
	go func() { // ends with the test
		defer close(ended)
		for after := ""; c.t.Context().Err() == nil; time.Sleep(o.pause) {
			after = l.stream(c, o, after)
		}
	}()
	c.t.Cleanup(func() {
		<-ended
		for _, bad := range l.bad {
			c.t.Error("a client that listens: " + bad)
		}
	})
	eventually(c.t, patience, "the GET stream is open", func() bool { return l.opened.Load() > 0 })
	return l
}

// stream is one GET, from its request to its end. It returns the last event id.
func (l *listener) stream(c *client, o listening, after string) string {
	x, err := c.try(http.MethodGet, "", map[string]string{"Last-Event-ID": after})
	if err != nil {
		l.note(c, "GET: %w", err)
		return after
	}
	defer x.close()
	switch {
	case x.status == http.StatusNoContent && after != "": // nothing is left of that stream
		return ""
	case x.status != http.StatusOK:
		l.note(c, "GET: status %d", x.status)
		return after
	}
	l.opened.Add(1)
	var cut <-chan time.Time
	if o.cut > 0 {
		cut = time.After(o.cut)
	}
	for {
		select {
		case f, ok := <-x.frames:
			if !ok {
				if x.err != nil {
					l.note(c, "a stream does not end as it should: %w", x.err)
				}
				return after
			}
			if f.id != "" {
				after = f.id
			}
		case <-cut:
			return after
		}
	}
}

// note notes what the host should not have done, unless it was the test that ended.
func (l *listener) note(c *client, format string, a ...any) {
	if err := fmt.Errorf(format, a...); c.t.Context().Err() == nil && len(l.bad) < 5 && !errors.Is(err, context.DeadlineExceeded) {
		l.bad = append(l.bad, err.Error())
	}
}
