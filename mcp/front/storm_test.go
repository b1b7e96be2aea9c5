package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// stormy is one session that is reset again and again. It keeps what a session
// keeps in storage: the log of each stream and what is owed on it.
type stormy struct {
	hosted
	mu      sync.Mutex
	rnd     *rand.Rand
	epoch   uint64
	streams map[string]*stormyStream
	running sync.WaitGroup
}

type stormyStream struct {
	id     string
	socket *session.Socket
	log    []session.Frame
	owes   []wire.ID
	epoch  uint64 // of the incarnation that runs what is owed
}

func (s *stormy) Send(_ context.Context, _ string, e session.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := e.(type) {
	case *session.Post:
		return s.post(e)
	case *session.Attach:
		st := s.streams[e.Post.Stream]
		if st == nil {
			p := e.Post
			p.Socket = e.Socket
			return s.post(&p)
		}
		if s.rnd.IntN(5) == 0 {
			return errors.New("starting")
		}
		opened(e.Socket)
		st.socket = e.Socket
		for _, f := range st.log {
			if after, err := session.ParseEventID(e.After); err != nil || after.Less(position(f)) {
				st.socket.Push(f)
			}
		}
		if st.epoch != s.epoch {
			for len(st.owes) > 0 {
				s.append(st, session.LostTo(actor.MemoryLimit).Answer(st.owes[0]), st.owes[0])
			}
		}
		if len(st.owes) == 0 {
			final(st.socket)
		}
	}
	return nil
}

func position(f session.Frame) session.EventID {
	id, err := session.ParseEventID(f.ID)
	if err != nil {
		panic(err)
	}
	return id
}

func (s *stormy) post(p *session.Post) error {
	switch s.rnd.IntN(10) {
	case 0:
		p.Socket.End(session.End{Kind: session.Broken}) // before it was admitted
		return nil
	}
	st := &stormyStream{id: p.Stream, socket: p.Socket, epoch: s.epoch}
	for _, m := range p.Messages {
		st.owes = append(st.owes, m.ID())
	}
	s.streams[p.Stream] = st
	opened(p.Socket)
	order, pause := s.rnd.Perm(len(st.owes)), time.Duration(s.rnd.IntN(6))*time.Millisecond
	ids := append([]wire.ID(nil), st.owes...)
	s.running.Go(func() {
		for _, i := range order {
			time.Sleep(pause)
			s.mu.Lock()
			if s.epoch == st.epoch { // else the incarnation is gone, and this with it
				s.append(st, wire.NewNotification("notifications/progress", nil), "")
				s.append(st, wire.NewResult(ids[i], []byte("{}")), ids[i])
				if len(st.owes) == 0 {
					final(st.socket)
				}
			}
			s.mu.Unlock()
		}
	})
	return nil
}

func (s *stormy) append(st *stormyStream, m wire.Message, answers wire.ID) {
	f := session.Frame{ID: session.EventID{Stream: st.id, Epoch: s.epoch, Seq: uint64(len(st.log) + 1)}.String(), Data: m.Bytes(), Answers: answers}
	st.log = append(st.log, f)
	for i, id := range st.owes {
		if id == answers {
			st.owes = append(st.owes[:i], st.owes[i+1:]...)
			break
		}
	}
	st.socket.Push(f)
}

// reset breaks the incarnation: its sockets end, and what it has not logged is lost.
func (s *stormy) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	for _, st := range s.streams {
		st.socket.End(session.End{Kind: session.Broken, Err: &actor.Error{Cause: actor.MemoryLimit}})
	}
}

// TestStorm: while the session is reset every few milliseconds, every request is
// answered exactly once, no event comes twice, and every body ends as it should
// (I1, I11).
func TestStorm(t *testing.T) {
	const exchanges = 400
	s := &stormy{rnd: rand.New(rand.NewPCG(1, 2)), streams: map[string]*stormyStream{}}
	f, err := New(Options{Sessions: s, Server: "demo", MaxAttaching: 8, AttachLimit: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	calm := make(chan struct{})
	var weather sync.WaitGroup
	weather.Go(func() {
		for {
			select {
			case <-calm:
				return
			case <-time.After(3 * time.Millisecond):
				s.reset()
			}
		}
	})
	ids := [][]wire.ID{{"1"}, {"1", `"1"`, "2"}, {"1", "1", "7.0"}}
	var clients sync.WaitGroup
	lost := make(chan int, exchanges)
	for i := range exchanges {
		clients.Go(func() { lost <- exchangeOf(t, f, ids[i%len(ids)]) })
		if i%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	clients.Wait()
	close(calm)
	weather.Wait()
	s.running.Wait()
	close(lost)
	n := 0
	for l := range lost {
		n += l
	}
	if got := f.Stats(); n == 0 || got.Attaches == 0 || got.LastResorts != 0 || got.Repeated != 0 || got.Streams != 0 || f.turns.free != f.o.MaxAttaching {
		t.Errorf("%d lost, %+v", n, got)
	}
	t.Logf("%d executions lost and reported, %+v", n, f.Stats())
}

// exchangeOf posts requests with these ids and checks that each is answered once;
// it returns how many were lost.
func exchangeOf(t *testing.T, f *Front, ids []wire.ID) (lost int) {
	var body []string
	want := map[wire.ID]int{}
	for _, id := range ids {
		body = append(body, wire.NewRequest(id, "tools/call", nil).String())
		want[id]++
	}
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("["+strings.Join(body, ",")+"]"))
	r.Header.Set(headerSession, "abc")
	r.Header.Set("Content-Type", typeJSON)
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	var last session.EventID
	for b := range strings.SplitSeq(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n") {
		var id, data string
		if n, err := fmt.Sscanf(b, "id: %s\nevent: message\ndata: %s", &id, &data); n != 2 {
			t.Errorf("%d: not an event: %q, %v", w.Code, b, err)
			return
		}
		at, err := session.ParseEventID(id)
		if err != nil || last != (session.EventID{}) && !last.Less(at) {
			t.Errorf("%s after %s, %v", id, last, err)
		}
		last = at
		_, data, _ = strings.Cut(b, "data: ")
		m, err := wire.Parse([]byte(data))
		if err != nil {
			t.Error(err)
			return
		}
		if m.Kind() == wire.Response {
			want[m.ID()]--
			if m.IsError() {
				lost++
			}
		}
	}
	for id, n := range want {
		if n != 0 {
			t.Errorf("request %s: %d answers are missing\n%s", id, n, w.Body)
		}
	}
	return lost
}
