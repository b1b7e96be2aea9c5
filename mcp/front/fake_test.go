package front

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// hosted are sessions of any server, with the default ceiling.
type hosted struct{}

func (hosted) RunningCeiling(string) (time.Duration, bool) {
	return session.Policy{}.WithDefaults().RunningCeiling, true
}

// fakeSessions are sessions that do what a script says. The script has a block
// for each event but Flushed and Gone: a line "> KIND" and then what to do about it.
//
//	open                     the messages are taken; a status is all
//	open stream              frames will follow
//	refuse STATUS CODE TEXT
//	frame EVENT ANSWERS DATA an event; ANSWERS is - for none
//	end final
//	end parked [RETRY]
//	end broken [CAUSE]
//	error unknown|TEXT       Send fails
//	advance DURATION         of the clock, before the front can react to what stands above
//	tick                     lets the clock run until the next event
//	disconnect               the client goes away, a little later
//	shutdown                 of the front begins
type fakeSessions struct {
	hosted
	t          testing.TB
	clock      *clock.Fake
	front      *Front
	disconnect func()

	mu     sync.Mutex
	script []string // the lines not yet executed
	events []string // what has been sent, a line each
	ticks  chan struct{}
	names  *strings.Replacer
}

func (s *fakeSessions) Send(_ context.Context, id string, e session.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, sock, line := s.describe(id, e)
	s.events = append(s.events, line)
	if sock == nil {
		return nil
	}
	if len(s.script) == 0 || s.script[0] != "> "+kind {
		s.t.Errorf("unexpected event: %s; the script goes on with %q", line, s.script)
		return errors.New("not in the script")
	}
	s.script = s.script[1:]
	s.stopTicking()
	var err error
	for len(s.script) > 0 && !strings.HasPrefix(s.script[0], ">") {
		if e := s.do(s.script[0], sock); e != nil {
			err = e
		}
		s.script = s.script[1:]
	}
	return err
}

// countedClock counts the timers that are armed.
type countedClock struct {
	clock.Clock
	armed atomic.Int64
}

type countedTimer struct {
	clock.Timer
	c *countedClock
}

func (c *countedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.armed.Add(1)
	return countedTimer{c.Clock.AfterFunc(d, func() {
		c.armed.Add(-1)
		f()
	}), c}
}

func (t countedTimer) Stop() bool {
	if !t.Timer.Stop() {
		return false
	}
	t.c.armed.Add(-1)
	return true
}

// stopTicking ends what tick began.
func (s *fakeSessions) stopTicking() {
	if s.ticks != nil {
		close(s.ticks)
		s.ticks = nil
	}
}

func (s *fakeSessions) do(line string, sock *session.Socket) error {
	word := strings.SplitN(line, " ", 4)
	arg := func(i int) string {
		if i < len(word) {
			return word[i]
		}
		return ""
	}
	switch word[0] {
	case "open":
		sock.Open(session.Opening{Streaming: arg(1) == "stream"})
	case "refuse":
		status, _ := strconv.Atoi(arg(1))
		code, _ := strconv.Atoi(arg(2))
		sock.Open(session.Opening{Refusal: session.Refuse(status, "1", wire.Code(code), "%s", arg(3))})
		sock.End(session.End{Kind: session.Final})
	case "frame":
		sock.Push(session.Frame{ID: arg(1), Answers: wire.ID(strings.Trim(arg(2), "-")), Data: []byte(arg(3))})
	case "end":
		end := session.End{Kind: map[string]session.EndKind{"final": session.Final, "parked": session.Parked, "broken": session.Broken}[arg(1)]}
		end.Retry, _ = time.ParseDuration(arg(2))
		if c, err := actor.ParseCause(arg(2)); err == nil {
			end.Err = fmt.Errorf("gone: %w", &actor.Error{Op: "call", Cause: c})
		}
		sock.End(end)
	case "error":
		if arg(1) == "unknown" {
			return fmt.Errorf("send: %w", session.ErrUnknown)
		}
		return errors.New(strings.TrimPrefix(line, "error "))
	case "advance":
		d, err := time.ParseDuration(arg(1))
		if err != nil {
			s.t.Error(err)
		}
		s.clock.Advance(d)
	case "tick":
		stop := make(chan struct{})
		s.ticks = stop
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					s.clock.Advance(5 * time.Millisecond)
				}
			}
		}()
	case "disconnect":
		time.AfterFunc(20*time.Millisecond, s.disconnect)
	case "shutdown":
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.front.Shutdown(over) // the handler that is running now can't end here
	default:
		s.t.Errorf("not a line of a script: %q", line)
	}
	return nil
}

// describe tells an event in a line. Minted ids get names.
func (s *fakeSessions) describe(id string, e session.Event) (kind string, sock *session.Socket, line string) {
	switch e := e.(type) {
	case *session.Post:
		kind, sock = "post", e.Socket
		if e.Create {
			s.names = strings.NewReplacer(id, "<session>", e.Stream, "<stream>")
		} else {
			s.names = strings.NewReplacer(e.Stream, "<stream>")
		}
		line = fmt.Sprintf("post %s create=%t batch=%t stream=%s %s", id, e.Create, e.Batch, e.Stream, about(e.Caller))
		for _, m := range e.Messages {
			line += "\n  " + m.String()
		}
	case *session.Attach:
		kind, sock = "attach", e.Socket
		line = fmt.Sprintf("attach %s after=%q to stream=%s with %d messages", id, e.After, e.Post.Stream, len(e.Post.Messages))
	case *session.Expire:
		kind, sock = "expire", e.Socket
		line = fmt.Sprintf("expire %s stream=%s: %s", id, e.Stream, e.Why.Reason)
	case *session.Get:
		kind, sock = "get", e.Socket
		s.names = strings.NewReplacer(e.Stream, "<stream>")
		line = fmt.Sprintf("get %s after=%q stream=%s %s", id, e.After, e.Stream, about(e.Caller))
	case *session.Delete:
		kind, sock = "delete", e.Socket
		line = fmt.Sprintf("delete %s %s", id, about(e.Caller))
	case *session.Flushed:
		line = "flushed " + e.Event
	case *session.Gone:
		line = "gone"
	}
	return kind, sock, line
}

func about(c session.Caller) string {
	return fmt.Sprintf("server=%s version=%q subject=%q", c.Server, c.Version, c.Principal.Subject)
}

// named replaces minted ids by names, which are the same in every run.
func (s *fakeSessions) named(text string) string {
	if s.names == nil {
		return text
	}
	return s.names.Replace(text)
}
