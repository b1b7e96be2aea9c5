package conn_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/kalpahost/kalpa/internal/conn"
)

// patience is how long what should happen may take.
const patience = 20 * time.Second

// counted counts what reaches the system.
type counted struct {
	net.Listener
	deadlines, single atomic.Int64
}

type countedConn struct {
	net.Conn
	l *counted
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countedConn{c, l}, err
}

func (c *countedConn) Read(p []byte) (int, error) {
	if len(p) == 1 {
		c.l.single.Add(1)
	}
	return c.Conn.Read(p)
}

func (c *countedConn) SetReadDeadline(t time.Time) error {
	c.l.deadlines.Add(1)
	return c.Conn.SetReadDeadline(t)
}

func (c *countedConn) SetWriteDeadline(t time.Time) error {
	c.l.deadlines.Add(1)
	return c.Conn.SetWriteDeadline(t)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// pair is a connection that was accepted, and the one of its client.
func pair(t *testing.T) (accepted, client net.Conn, end func()) {
	t.Helper()
	l := conn.NewListener(listen(t))
	client = dial(t, l)
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return accepted, client, func() {
		_, _, _ = l.Close(), accepted.Close(), client.Close()
	}
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConn: it is a connection like any other.
func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, c2, stop = pair(t)
		return c1, c2, stop, nil
	})
}

// TestDeadlines are those of one that was accepted, whatever was wanted before.
func TestDeadlines(t *testing.T) {
	const ms, soon = time.Millisecond, time.Second
	much := make([]byte, 16<<20) // more than the system takes
	for _, at := range []struct {
		name          string
		before, after []time.Duration // from now on; 0: none
		ends          bool
	}{
		{"none", nil, nil, false},
		{"past", []time.Duration{-1}, nil, true},
		{"soon", []time.Duration{soon}, nil, true},
		{"soon, and then none", []time.Duration{soon, 0}, nil, false},
		{"past, and then none", []time.Duration{-1, 0}, nil, false},
		{"later, and then soon", []time.Duration{time.Hour, soon}, nil, true},
		{"soon, and later under way", []time.Duration{soon}, []time.Duration{time.Hour}, false},
		{"soon, and none under way", []time.Duration{soon}, []time.Duration{0}, false},
		{"later, and past under way", []time.Duration{time.Hour}, []time.Duration{-1}, true},
		{"past under way", nil, []time.Duration{-1}, true},
		{"a little later under way, twice", []time.Duration{soon}, []time.Duration{soon + ms, soon + 2*ms}, true},
	} {
		for _, side := range []string{"read", "read one", "write"} {
			t.Run(side+"/"+at.name, func(t *testing.T) {
				t.Parallel()
				c, _, end := pair(t)
				defer end()
				set, call := c.SetReadDeadline, func() (int, error) { return c.Read(make([]byte, 4)) }
				switch side {
				case "read one":
					call = func() (int, error) { return c.Read(make([]byte, 1)) }
				case "write":
					set, call = c.SetWriteDeadline, func() (int, error) { return c.Write(much) }
				}
				want := func(all []time.Duration) {
					for _, d := range all {
						deadline := time.Time{}
						if d != 0 {
							deadline = time.Now().Add(d)
						}
						if err := set(deadline); err != nil {
							t.Error(err)
						}
					}
				}
				want(at.before)
				ended := make(chan error, 1)
				go func() { _, err := call(); ended <- err }()
				if len(at.after) > 0 {
					time.Sleep(10 * ms)
					want(at.after)
				}
				limit := soon + soon/2 // in which what is to go on goes on
				if at.ends {
					limit = patience
				}
				select {
				case err := <-ended:
					if !at.ends || !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("it ended with %v", err)
					}
				case <-time.After(limit):
					if at.ends {
						t.Error("it did not end")
					}
				}
				if !at.ends {
					_ = c.Close()
					if err := <-ended; !errors.Is(err, net.ErrClosed) {
						t.Errorf("closed, it ended with %v", err)
					}
				}
			})
		}
	}
}

// TestWriteGoesOn: a write that was under way when an old deadline came is whole.
func TestWriteGoesOn(t *testing.T) {
	c, client, end := pair(t)
	defer end()
	text := strings.Repeat("0123456789", 1<<20)
	const old = time.Second
	_ = c.SetWriteDeadline(time.Now().Add(old))
	go func() {
		time.Sleep(10 * time.Millisecond)
		_ = c.SetWriteDeadline(time.Time{})
		time.Sleep(old + old/10) // until the old one has passed
		b, _ := io.ReadAll(client)
		if string(b) != text {
			t.Errorf("%d of %d bytes came, or others", len(b), len(text))
		}
		_ = client.Close()
	}()
	if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
		t.Errorf("wrote %d of %d bytes: %v", n, len(text), err)
	}
	_ = c.(interface{ CloseWrite() error }).CloseWrite()
	if _, err := c.Read(make([]byte, 4)); !errors.Is(err, io.EOF) {
		t.Errorf("the client's end is %v", err)
	}
}

// serve has a server on a listener of this package until the test ends.
func serve(t *testing.T, s *http.Server) *counted {
	t.Helper()
	inner := &counted{Listener: listen(t)}
	gone := make(chan struct{})
	go func() { defer close(gone); _ = s.Serve(conn.NewListener(inner)) }()
	t.Cleanup(func() { _ = s.Close(); <-gone })
	return inner
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// exchange writes requests, and reads an answer for each.
func exchange(t *testing.T, c net.Conn, in *bufio.Reader, requests ...string) (bodies string) {
	t.Helper()
	if _, err := io.WriteString(c, strings.Join(requests, "")); err != nil {
		t.Fatal(err)
	}
	for range requests {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		if _ = r.Body.Close(); err != nil {
			t.Fatal(err)
		}
		bodies += string(b) + " "
	}
	return bodies
}

// TestShortRequestsAreCheap: that is what it is for.
func TestShortRequestsAreCheap(t *testing.T) {
	const requests = 500
	l := serve(t, &http.Server{
		ReadHeaderTimeout: time.Minute, IdleTimeout: time.Hour,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
			b, _ := io.ReadAll(r.Body)
			_, _ = w.Write(b)
		}),
	})
	c := dial(t, l)
	defer c.Close()
	in := bufio.NewReader(c)
	for range requests {
		if got := exchange(t, c, in, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"); got != "abc " {
			t.Fatalf("the answer is %q", got)
		}
	}
	// A machine that stands still for Ahead sees some as long ones.
	if d, n := l.deadlines.Load(), l.single.Load(); d > requests/4 || n > requests/4 {
		t.Errorf("%d requests told the system %d deadlines, and read ahead %d times", requests, d, n)
	}
}

// TestClientLeaves, and the handler of a request that takes long hears of it.
func TestClientLeaves(t *testing.T) {
	heard := make(chan error, 1)
	l := serve(t, &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			heard <- r.Context().Err()
		case <-time.After(patience):
			heard <- errors.New("nothing")
		}
	})})
	c := dial(t, l)
	_, _ = io.WriteString(c, get)
	time.Sleep(10 * time.Millisecond)
	_ = c.Close()
	if err := <-heard; !errors.Is(err, context.Canceled) {
		t.Errorf("it heard %v", err)
	}
}

// TestRequestsInTurn: those that come together with others, before them and after a pause
// that is longer than it takes to read ahead.
func TestRequestsInTurn(t *testing.T) {
	l := serve(t, &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(3 * conn.Ahead)
		}
		_, _ = io.WriteString(w, r.URL.Path)
	})})
	c := dial(t, l)
	defer c.Close()
	in := bufio.NewReader(c)
	at := func(path string) string { return strings.Replace(get, "/", path, 1) }
	if got := exchange(t, c, in, at("/a"), at("/slow"), at("/b")); got != "/a /slow /b " {
		t.Errorf("the answers are %q", got)
	}
	if _, err := io.WriteString(c, at("/slow")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * conn.Ahead) // it is read ahead by now
	if got := exchange(t, c, in, at("/c"), at("/d")); got != "/slow /c " {
		t.Errorf("the answers are %q", got)
	}
	if got := exchange(t, c, in, at("/slow")); got != "/d " {
		t.Errorf("the answer is %q", got)
	}
	if got := exchange(t, c, in, at("/e")); got != "/slow " {
		t.Errorf("the answer is %q", got)
	}
}

// TestServersDeadlines: of one that does not say what it wants, at first and later.
func TestServersDeadlines(t *testing.T) {
	l := serve(t, &http.Server{
		ReadHeaderTimeout: 50 * time.Millisecond, IdleTimeout: 100 * time.Millisecond,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				time.Sleep(3 * conn.Ahead)
			}
		}),
	})
	for name, sent := range map[string]string{
		"half a request": "GET / HT", "half of a second one": get + "GET / HT", "none after one": get,
		"none after a slow one": strings.Replace(get, "/", "/slow", 1),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, l)
			defer c.Close()
			_, _ = io.WriteString(c, sent)
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}

// TestHijack: who takes a connection over has no deadline left, and may read by the byte.
func TestHijack(t *testing.T) {
	const limit = 300 * time.Millisecond
	taken, read := make(chan error, 1), make(chan string, 1)
	l := serve(t, &http.Server{ReadHeaderTimeout: limit, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, in, err := http.NewResponseController(w).Hijack()
		if taken <- err; err != nil {
			return
		}
		all, _ := in.Peek(in.Reader.Buffered())
		for b := make([]byte, 1); err == nil; {
			var n int
			n, err = c.Read(b)
			all = append(all, b[:n]...)
		}
		_ = c.Close()
		read <- string(all)
	})})
	for range 20 { // a head that comes late is refused
		c := dial(t, l)
		defer c.Close()
		_, _ = io.WriteString(c, get)
		select {
		case err := <-taken:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(2 * limit):
			continue
		}
		time.Sleep(limit + limit/10)
		_, _ = io.WriteString(c, "abc")
		_ = c.Close()
		select {
		case got := <-read:
			if got != "abc" {
				t.Errorf("it read %q", got)
			}
		case <-time.After(patience):
			t.Error("it does not read")
		}
		return
	}
	t.Error("it is never taken over")
}

// TestReadersAhead: of two that read a byte each, neither is left behind.
func TestReadersAhead(t *testing.T) {
	for i := range 20 {
		c, client, end := pair(t)
		got := make(chan error, 2)
		for range 2 {
			go func() { _, err := c.Read(make([]byte, 1)); got <- err }()
		}
		time.Sleep(5 * time.Millisecond)
		_ = c.SetReadDeadline(time.Unix(1, 0))
		_ = c.SetReadDeadline(time.Time{})
		if i%2 == 0 {
			_, _ = io.WriteString(client, "ab")
		} else {
			_ = c.Close()
		}
		for range 2 {
			select {
			case <-got:
			case <-time.After(patience):
				t.Fatal("one still reads")
			}
		}
		end()
	}
}

// piped is a listener that has one connection, by a pipe, whose time is the test's.
type piped struct {
	net.Listener
	c net.Conn
}

func (p piped) Accept() (net.Conn, error) { return p.c, nil }

// TestReadsAhead at the second look, and at once where it is closed.
func TestReadsAhead(t *testing.T) {
	for name, tt := range map[string]struct {
		then        func(c, client net.Conn)
		least, most time.Duration
		err         error
	}{
		"its client leaves":        {func(_, client net.Conn) { _ = client.Close() }, conn.Ahead, 2 * conn.Ahead, io.EOF},
		"it is closed":             {func(c, _ net.Conn) { _ = c.Close() }, 0, 0, io.ErrClosedPipe},
		"there is no time left":    {func(c, _ net.Conn) { _ = c.SetReadDeadline(time.Unix(1, 0)) }, 0, 0, os.ErrDeadlineExceeded},
		"there is a byte to read":  {func(_, client net.Conn) { go func() { _, _ = client.Write([]byte("a")) }() }, conn.Ahead, 2 * conn.Ahead, nil},
		"there is a little time":   {func(c, _ net.Conn) { _ = c.SetReadDeadline(time.Now().Add(conn.Ahead / 2)) }, conn.Ahead / 2, conn.Ahead / 2, os.ErrDeadlineExceeded},
		"there is a lot, and then": {func(c, _ net.Conn) { _ = c.SetReadDeadline(time.Now().Add(time.Hour)) }, time.Hour, time.Hour, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, client := net.Pipe()
				c, _ := conn.NewListener(piped{c: inner}).Accept()
				defer client.Close()
				defer c.Close()
				begin := time.Now()
				ended := make(chan error)
				go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
				synctest.Wait()
				tt.then(c, client)
				if err := <-ended; !errors.Is(err, tt.err) {
					t.Errorf("it ended with %v", err)
				}
				if took := time.Since(begin); took < tt.least || took > tt.most {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestDeadlineMovesForAll: of those who read together, none is ended by an old deadline.
func TestDeadlineMovesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, client := net.Pipe()
		defer client.Close()
		c, _ := conn.NewListener(piped{c: inner}).Accept()
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		ended := make(chan error, 4)
		for range cap(ended) {
			go func() { _, err := c.Read(make([]byte, 4)); ended <- err }()
		}
		synctest.Wait()
		_ = c.SetReadDeadline(time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		_ = c.Close()
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("one ended with %v", err)
			}
		}
	})
}
