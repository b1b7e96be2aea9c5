package limit

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// Listener bounds the connections of an [http.Server], whose ConnState it has to hear:
//
//	l := limit.NewListener(inner, 1000)
//	server.ConnState = l.ConnState
//	server.Serve(l)
//
// At the bound a connection on which nothing is asked makes room for a new one: the one
// that has been so for longest, of those on which nothing ever was where these are many.
// When there is none, the new one is closed at once. So connections that are opened and
// left alone cost their bound in memory and nobody a place, and clients that keep theirs
// between requests keep them.
type Listener struct {
	net.Listener

	mu      sync.Mutex
	max     int
	conns   map[net.Conn]*list.Element // of all; nil when something is asked on it
	fresh   *list.List                 // of net.Conn on which nothing was asked ever, oldest first
	idle    *list.List                 // of net.Conn, idle longest first
	evicted int64
	refused int64
}

// NewListener bounds the connections of a listener.
func NewListener(l net.Listener, most int) *Listener {
	return &Listener{Listener: l, max: most, conns: map[net.Conn]*list.Element{}, fresh: list.New(), idle: list.New()}
}

// Set changes the bound. What is beyond it already may stay.
func (l *Listener) Set(most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = most
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		out, ok := l.admit(c)
		if out != nil {
			_ = out.Close()
		}
		if ok {
			return c, nil
		}
	}
}

// admit takes a connection in, and returns the one to close for it: another, or itself.
func (l *Listener) admit(c net.Conn) (out net.Conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.max {
		longest := l.idle.Front()
		if l.fresh.Len() > l.max/8 || longest == nil { // few may just be about to ask
			longest = l.fresh.Front()
		}
		if longest == nil {
			l.refused++
			return c, false
		}
		out = longest.Value.(net.Conn)
		l.forget(out)
		l.evicted++
	}
	l.conns[c] = l.fresh.PushBack(c)
	return out, true
}

func (l *Listener) forget(c net.Conn) {
	l.busy(l.conns[c])
	delete(l.conns, c)
}

// busy takes a connection out of the list that it is in, if it is in one.
func (l *Listener) busy(e *list.Element) {
	if e != nil {
		l.fresh.Remove(e)
		l.idle.Remove(e)
	}
}

// ConnState is for http.Server.ConnState.
func (l *Listener) ConnState(c net.Conn, s http.ConnState) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e, known := l.conns[c]
	switch {
	case !known: // evicted, or another listener's
	case s == http.StateActive:
		l.busy(e)
		l.conns[c] = nil
	case s == http.StateIdle:
		if e == nil {
			l.conns[c] = l.idle.PushBack(c)
		}
	case s == http.StateClosed, s == http.StateHijacked:
		l.forget(c)
	}
}

// Connections are figures of a Listener.
type Connections struct {
	Open, Idle       int   // now
	Evicted, Refused int64 // since the start
}

// Connections returns the current figures.
func (l *Listener) Connections() Connections {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Connections{len(l.conns), l.fresh.Len() + l.idle.Len(), l.evicted, l.refused}
}
