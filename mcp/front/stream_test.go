package front

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sessionsFunc answers events by calling itself.
type sessionsFunc func(id string, e session.Event) error

func (sessionsFunc) RunningCeiling(server string) (time.Duration, bool) {
	return hosted{}.RunningCeiling(server)
}

func (f sessionsFunc) Send(_ context.Context, id string, e session.Event) error { return f(id, e) }

// served is a front behind a real HTTP server.
type served struct {
	*Front
	t      *testing.T
	url    string
	client *http.Client
	clock  *clock.Fake
}

func serve(t *testing.T, o Options, sessions sessionsFunc) *served {
	clk := clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	o.Sessions, o.Server, o.Clock, o.Logger = sessions, "demo", clk, slog.New(slog.DiscardHandler)
	set(&o.Hold, -1) // most tests want to see the head by itself
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				err = c.(*net.TCPConn).SetReadBuffer(16 << 10) // so that a client that does not read is soon felt
			}
			return c, err
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &served{f, t, s.URL, &http.Client{Transport: transport}, clk}
}

// call sends a request of session abc.
func (s *served) call(ctx context.Context, method, body string, head ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set(headerSession, "abc")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", typeJSON)
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	w, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { w.Body.Close() })
	return w
}

func (s *served) get(head ...string) *http.Response {
	return s.call(s.t.Context(), http.MethodGet, "", head...)
}
func (s *served) post(body string, head ...string) *http.Response {
	return s.call(s.t.Context(), http.MethodPost, body, head...)
}

const (
	ping  = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	pong  = `{"jsonrpc":"2.0","id":1,"result":{}}`
	note  = `{"jsonrpc":"2.0","method":"notifications/x"}`
	modal = "2025-11-25"
)

func opened(sock *session.Socket) { sock.Open(session.Opening{Streaming: true}) }
func pushed(sock *session.Socket, id, answers, data string) {
	sock.Push(session.Frame{ID: id, Answers: wire.ID(answers), Data: []byte(data)})
}
func final(sock *session.Socket) { sock.End(session.End{Kind: session.Final}) }
func taken(sock *session.Socket) {
	sock.Open(session.Opening{})
	final(sock)
}

// socketOf is the socket of an event that is to be answered, nil for the others.
func socketOf(e session.Event) *session.Socket {
	switch e := e.(type) {
	case *session.Post:
		return e.Socket
	case *session.Attach:
		return e.Socket
	case *session.Get:
		return e.Socket
	case *session.Delete:
		return e.Socket
	}
	return nil
}

// opener opens every stream and hands out its socket.
func opener() (sessionsFunc, chan *session.Socket) {
	sockets := make(chan *session.Socket, 100)
	return func(_ string, e session.Event) error {
		if s := socketOf(e); s != nil {
			opened(s)
			sockets <- s
		}
		return nil
	}, sockets
}

// within fails the test when f takes too long.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("%s: not within %v", what, d)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 500 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("never: " + what)
}

func read(t *testing.T, w *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatalf("the body did not end as it should: %v, after %.200q", err, b)
	}
	return string(b)
}

// block reads one block of a stream: the lines up to an empty one.
func block(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var b strings.Builder
	for {
		l, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		if l == "\n" {
			return b.String()
		}
		b.WriteString(l)
	}
}

// TestKeepAlive: streams of both methods carry a comment after each 25 s without
// anything else, and none earlier.
func TestKeepAlive(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			sessions, sockets := opener()
			s := serve(t, Options{}, sessions)
			body := ""
			if method == http.MethodPost {
				body = ping
			}
			r := bufio.NewReader(s.call(t.Context(), method, body).Body)
			sock := <-sockets
			expect := func(want string) {
				t.Helper()
				within(t, 5*time.Second, "a block", func() {
					if got := block(t, r); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				})
			}
			s.clock.Advance(MaxKeepAlive)
			expect(": keepalive\n")
			s.clock.Advance(MaxKeepAlive - 1) // nothing yet: else it would come before the event
			pushed(sock, "s.1.1", "", note)
			expect("id: s.1.1\nevent: message\ndata: " + note + "\n")
			s.clock.Advance(1)
			s.clock.Advance(MaxKeepAlive - 2) // counted from the event
			pushed(sock, "s.1.2", "", note)
			expect("id: s.1.2\nevent: message\ndata: " + note + "\n")
			for range 3 {
				s.clock.Advance(MaxKeepAlive)
				expect(": keepalive\n")
			}
		})
	}
}

// TestClientGone: the session hears once that a client has left, whatever the
// stream was doing; it hears of no cancellation.
func TestClientGone(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s early=%t", method, early), func(t *testing.T) {
				var mu sync.Mutex
				var got []string
				arrived := make(chan struct{})
				s := serve(t, Options{}, func(_ string, e session.Event) error {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, strings.TrimPrefix(fmt.Sprintf("%T", e), "*session."))
					if sock := socketOf(e); sock != nil {
						if !early {
							opened(sock)
						}
						close(arrived)
					}
					return nil
				})
				ctx, cancel := context.WithCancel(t.Context())
				body := ""
				if method == http.MethodPost {
					body = ping
				}
				r, _ := http.NewRequestWithContext(ctx, method, s.url, strings.NewReader(body))
				r.Header.Set(headerSession, "abc")
				r.Header.Set("Content-Type", typeJSON)
				go func() {
					<-arrived
					cancel()
				}()
				if w, err := s.client.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, w.Body)
					w.Body.Close()
				}
				want := map[string]string{http.MethodGet: "[Get Gone]", http.MethodPost: "[Post Gone]"}[method]
				eventually(t, "gone", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(got) > 1
				})
				within(t, 5*time.Second, "Shutdown", func() { _ = s.Shutdown(context.Background()) })
				if fmt.Sprint(got) != want {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		}
	}
}

// TestSlowReaderIsParked: past Pending the stream ends as if it were over, after a
// prefix of its events, and the client can resume from the last.
func TestSlowReaderIsParked(t *testing.T) {
	sockets := make(chan *session.Socket, 1)
	var mu sync.Mutex
	var flushed string
	s := serve(t, Options{Pending: 1 << 20}, func(_ string, e session.Event) error {
		if sock := socketOf(e); sock != nil {
			opened(sock)
			sockets <- sock
		} else if f, ok := e.(*session.Flushed); ok {
			mu.Lock()
			flushed = f.Event
			mu.Unlock()
		}
		return nil
	})
	w := s.post(ping)
	sock := <-sockets
	data := `"` + strings.Repeat("x", 100<<10) + `"`
	const n = 200 // 20 MB, more than any buffer on the way takes
	for i := range n {
		pushed(sock, fmt.Sprintf("s.1.%d", i+1), "", data)
	}
	got := strings.Split(strings.TrimSuffix(read(t, w), "\n\n"), "\n\n")
	if len(got) == n {
		t.Fatal("all events came: nothing was parked")
	}
	for i, e := range got {
		if want := fmt.Sprintf("id: s.1.%d\nevent: message\ndata: %s", i+1, data); e != want {
			t.Fatalf("event %d is %.60q, want %.60q", i, e, want)
		}
	}
	eventually(t, "the last flush confirmed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return flushed == fmt.Sprintf("s.1.%d", len(got))
	})
	eventually(t, "counted", func() bool { return s.Stats().Parked == 1 })
}

// TestNeverReaderIsCut: a client that does not read at all holds its handler for
// WriteLimit at most.
func TestNeverReaderIsCut(t *testing.T) {
	gone := make(chan struct{})
	sockets := make(chan *session.Socket, 1)
	s := serve(t, Options{WriteLimit: 200 * time.Millisecond}, func(_ string, e session.Event) error {
		switch e := e.(type) {
		case *session.Post:
			opened(e.Socket)
			sockets <- e.Socket
		case *session.Gone:
			close(gone)
		}
		return nil
	})
	s.post(ping)
	sock := <-sockets
	pushed(sock, "s.1.1", "", `"`+strings.Repeat("x", 30<<20)+`"`)
	within(t, 5*time.Second, "the cut", func() { <-gone })
	within(t, 5*time.Second, "the end of the handler", func() { _ = s.Shutdown(context.Background()) })
}

// TestSteadyReaderIsNotCut: WriteLimit is for each piece, not for a frame: a client
// that reads slowly but steadily gets all of it.
func TestSteadyReaderIsNotCut(t *testing.T) {
	data := strings.Repeat("x", 16<<20)
	s := serve(t, Options{WriteLimit: 800 * time.Millisecond, Pending: 32 << 20}, func(_ string, e session.Event) error {
		if sock := socketOf(e); sock != nil {
			opened(sock)
			pushed(sock, "s.1.1", "1", data)
			final(sock)
		}
		return nil
	})
	w := s.post(ping)
	total, piece := 0, make([]byte, 256<<10)
	for start := time.Now(); ; {
		n, err := io.ReadFull(w.Body, piece)
		total += n
		if err != nil {
			break
		}
		if time.Since(start) < time.Second {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if total < len(data) {
		t.Errorf("cut after %d bytes", total)
	}
}

// TestLargeFrame: frames of any size pass unchanged.
func TestLargeFrame(t *testing.T) {
	for _, size := range []int{0, 1, gatherUpTo - 1, gatherUpTo, gatherUpTo + 1, writeAtOnce + 1, 10 << 20} {
		data := strings.Repeat("x", size)
		s := serve(t, Options{Pending: 32 << 20}, func(_ string, e session.Event) error {
			if sock := socketOf(e); sock != nil {
				opened(sock)
				pushed(sock, "s.1.1", "", data)
				pushed(sock, "s.1.2", "1", pong)
				final(sock)
			}
			return nil
		})
		want := "id: s.1.1\nevent: message\ndata: " + data + "\n\nid: s.1.2\nevent: message\ndata: " + pong + "\n\n"
		if size == 0 {
			want = strings.Replace(want, "event: message\n", "", 1)
		}
		if got := read(t, s.post(ping)); got != want {
			t.Errorf("size %d: got %d bytes, want %d", size, len(got), len(want))
		}
	}
}

// TestHeadersComeAtOnce: a stream is open for its client before there is an event.
func TestHeadersComeAtOnce(t *testing.T) {
	sessions, _ := opener()
	s := serve(t, Options{}, sessions)
	within(t, 5*time.Second, "the headers", func() { s.post(ping) })
}

// TestShutdown: streams end in order, late requests are told to come again, and no
// handler is left.
func TestShutdown(t *testing.T) {
	sessions, sockets := opener()
	s := serve(t, Options{}, sessions)
	plain, primed := s.get(), s.post(ping, headerVersion, modal)
	<-sockets
	pushed(<-sockets, "s.1.0", "", "")
	r := bufio.NewReader(primed.Body)
	block(t, r)
	within(t, 5*time.Second, "Shutdown", func() {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if got := read(t, plain); got != "" {
		t.Errorf("the old client got %q", got)
	}
	if got := block(t, r); got != "retry: 1000\n" {
		t.Errorf("the new client got %q", got)
	}
	if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
		t.Errorf("and then %q, %v", rest, err)
	}
	w := s.post(ping)
	if body := read(t, w); w.StatusCode != http.StatusServiceUnavailable || w.Header.Get("Retry-After") == "" || !strings.Contains(body, "shutting down") {
		t.Errorf("a late request got %d %s", w.StatusCode, body)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error("again:", err)
	}
}

// TestShutdownGivesUp: a handler that can't end is reported.
func TestShutdownGivesUp(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, Options{}, func(_ string, e session.Event) error {
		close(inside)
		<-leave
		return errors.New("too late")
	})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.post(ping)
	}()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 requests") {
		t.Errorf("got %v", err)
	}
	close(leave)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	<-answered
}

// TestAttachTakesTurns: with one turn, the second exchange attaches when the first
// has been taken over; one that waits too long for its turn gives up.
func TestAttachTakesTurns(t *testing.T) {
	attached := make(chan *session.Attach, 3)
	sockets := make(chan *session.Socket, 3)
	s := serve(t, Options{MaxAttaching: 1, AttachLimit: time.Minute}, func(_ string, e session.Event) error {
		switch e := e.(type) {
		case *session.Post:
			opened(e.Socket)
			sockets <- e.Socket
		case *session.Attach:
			attached <- e
		}
		return nil
	})
	var w [3]*http.Response
	for i := range w {
		w[i] = s.post(ping)
		sock := <-sockets
		pushed(sock, "s.1.0", "", note)
		sock.End(session.End{Kind: session.Broken})
	}
	answer := func(a *session.Attach) {
		opened(a.Socket)
		pushed(a.Socket, "s.2.1", "1", pong)
		final(a.Socket)
	}
	first := <-attached
	select {
	case <-attached:
		t.Fatal("two exchanges attach at once, and there is one turn")
	case <-time.After(50 * time.Millisecond):
	}
	answer(first)
	answer(<-attached)
	<-attached // the third has its turn and is never answered
	s.clock.Advance(time.Minute)
	lost := 0
	for i := range w {
		if strings.Contains(read(t, w[i]), "-32010") {
			lost++
		}
	}
	if lost != 1 || s.Stats().LastResorts != 1 || s.Stats().Attaches != 3 {
		t.Errorf("%d lost; %+v", lost, s.Stats())
	}

	// One holds the turn, the other waits for it in vain.
	var v [2]*http.Response
	for i := range v {
		v[i] = s.post(ping)
		(<-sockets).End(session.End{Kind: session.Broken})
		if i == 0 {
			<-attached
		}
	}
	eventually(t, "the second waits", func() bool { s.clock.Advance(time.Second); return s.Stats().LastResorts == 2 })
	if got := read(t, v[1]); !strings.Contains(got, "-32010") {
		t.Errorf("got %q", got)
	}
	if n := len(attached); n != 0 {
		t.Errorf("%d more attached", n)
	}
}

// TestAttachPauses: an incarnation that breaks at once is not followed by the next
// attempt at once; a frame that came through starts the count anew.
func TestAttachPauses(t *testing.T) {
	attaches := make(chan *session.Attach, 100)
	s := serve(t, Options{AttachLimit: time.Minute}, func(_ string, e session.Event) error {
		switch e := e.(type) {
		case *session.Post:
			opened(e.Socket)
			e.Socket.End(session.End{Kind: session.Broken})
		case *session.Attach:
			attaches <- e
		}
		return nil
	})
	w := s.post(ping)
	next := func(pause time.Duration) *session.Socket {
		t.Helper()
		if pause > 0 {
			time.Sleep(20 * time.Millisecond) // the front sees the break
			s.clock.Advance(pause - 1)
			select {
			case <-attaches:
				t.Fatalf("attached before %v", pause)
			case <-time.After(20 * time.Millisecond):
			}
			s.clock.Advance(1)
		}
		select {
		case a := <-attaches:
			return a.Socket
		case <-time.After(5 * time.Second):
			t.Fatalf("not attached after %v", pause)
			return nil
		}
	}
	sock := next(0)
	for _, pause := range []time.Duration{25, 50, 100, 200, 200} {
		sock.End(session.End{Kind: session.Broken})
		sock = next(pause * time.Millisecond)
	}
	opened(sock) // taken over, and broken again
	sock.End(session.End{Kind: session.Broken})
	sock = next(200 * time.Millisecond)
	opened(sock)
	pushed(sock, "s.7.1", "", note)
	sock.End(session.End{Kind: session.Broken})
	sock = next(0)
	opened(sock)
	pushed(sock, "s.8.1", "1", pong)
	final(sock)
	if got := read(t, w); !strings.Contains(got, pong) {
		t.Errorf("got %q", got)
	}
}

// TestInstant keeps the benchmark's session honest.
func TestInstant(t *testing.T) {
	s := serve(t, Options{}, instant)
	if got := read(t, s.post(ping)); got != "id: s.1.1\nevent: message\ndata: "+pong+"\n\n" {
		t.Errorf("got %q", got)
	}
}

// instant answers every request with id 1 before Send returns.
func instant(_ string, e session.Event) error {
	if p, ok := e.(*session.Post); ok {
		opened(p.Socket)
		p.Socket.Push(session.Frame{ID: "s.1.1", Answers: "1", Data: []byte(pong)})
		final(p.Socket)
	}
	return nil
}

// BenchmarkPost is one request and its answer through a front whose session takes
// no time: the handler alone, and with HTTP over loopback on both sides.
func BenchmarkPost(b *testing.B) {
	f, err := New(Options{Sessions: sessionsFunc(instant), Server: "demo"})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("handler", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := httptest.NewRequest(http.MethodPost, "/mcp", bytes.NewReader([]byte(ping)))
			r.Header.Set(headerSession, "abc")
			r.Header.Set("Content-Type", typeJSON)
			f.ServeHTTP(discard{http.Header{}}, r)
		}
	})
	b.Run("loopback", func(b *testing.B) {
		s := httptest.NewServer(f)
		defer s.Close()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for pb.Next() {
				r, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL, bytes.NewReader([]byte(ping)))
				r.Header.Set(headerSession, "abc")
				r.Header.Set("Content-Type", typeJSON)
				w, err := client.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, w.Body); err != nil {
					b.Error(err)
				}
				w.Body.Close()
			}
		})
	})
}

// discard is a ResponseWriter that keeps nothing.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
func (d discard) Flush()                      {}
