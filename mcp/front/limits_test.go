package front

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
)

// accepting answers everything at once: streams stay open.
func accepting(_ string, e session.Event) error {
	switch e := e.(type) {
	case *session.Post:
		if owedFor(e.Messages) == nil {
			taken(e.Socket)
		} else {
			opened(e.Socket)
		}
	case *session.Get:
		opened(e.Socket)
	}
	return nil
}

// TestMaxStreams: as many streams as allowed are open, one more is told to come
// again, what is no stream always gets through, and a stream that ends makes room.
func TestMaxStreams(t *testing.T) {
	s := serve(t, Options{MaxStreams: 2}, accepting)
	ctx, cancel := context.WithCancel(t.Context())
	for i, w := range []*http.Response{s.call(ctx, http.MethodGet, ""), s.post(ping)} {
		if w.StatusCode != http.StatusOK {
			t.Errorf("stream %d of 2: %d", i+1, w.StatusCode)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		body := ""
		if method == http.MethodPost {
			body = ping
		}
		w := s.call(t.Context(), method, body)
		if got := read(t, w); w.StatusCode != http.StatusServiceUnavailable || w.Header.Get("Retry-After") == "" || !strings.Contains(got, "2 streams") {
			t.Errorf("%s past the limit: %d %s", method, w.StatusCode, got)
		}
	}
	if w := s.post(note); w.StatusCode != http.StatusAccepted {
		t.Errorf("a notification at the limit: %d", w.StatusCode)
	}
	cancel()
	eventually(t, "room for one more", func() bool { return s.Stats().Streams == 1 })
	if w := s.get(); w.StatusCode != http.StatusOK {
		t.Errorf("after one has ended: %d", w.StatusCode)
	}
}

// padded is a notification of so many bytes.
func padded(n int) string { return note + strings.Repeat(" ", n-len(note)) }

// TestMaxBody: a body of exactly the limit is served, one byte more is not,
// whether it was announced or not; and not much of it is read.
func TestMaxBody(t *testing.T) {
	const limit = 200 << 10
	s := serve(t, Options{MaxBody: limit}, accepting)
	for _, chunked := range []bool{false, true} {
		for size, status := range map[int]int{limit: http.StatusAccepted, limit + 1: http.StatusRequestEntityTooLarge} {
			var body io.Reader = strings.NewReader(padded(size))
			if chunked {
				body = io.MultiReader(body) // of unknown length
			}
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, body)
			r.Header.Set(headerSession, "abc")
			r.Header.Set("Content-Type", typeJSON)
			w, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, w); w.StatusCode != status {
				t.Errorf("%d bytes, chunked=%t: %d %s", size, chunked, w.StatusCode, got)
			}
			w.Body.Close()
		}
	}
	if n := s.Stats().Bodies; n != 0 {
		t.Errorf("%d bytes are still held", n)
	}

	sent := &countingReader{r: io.LimitReader(zeros{}, 1<<30)}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, sent)
	r.Header.Set(headerSession, "abc")
	r.Header.Set("Content-Type", typeJSON)
	if w, err := s.client.Do(r); err == nil {
		if w.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("1 GiB: %d", w.StatusCode)
		}
		w.Body.Close()
	}
	if n := sent.n.Load(); n > 64<<20 {
		t.Errorf("%d bytes of the body went over the wire", n)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

type countingReader struct {
	r io.Reader
	n atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// TestMaxBodies: bodies of open exchanges count; a stream that ends gives its body
// back.
func TestMaxBodies(t *testing.T) {
	// A body takes its length and a byte, until it is larger than firstRead.
	s := serve(t, Options{MaxBody: int64(len(note)), MaxBodies: int64(2 * (len(ping) + 1))}, accepting)
	ctx, cancel := context.WithCancel(t.Context())
	s.call(ctx, http.MethodPost, ping)
	s.post(ping)
	w := s.post(note)
	if got := read(t, w); w.StatusCode != http.StatusServiceUnavailable || !strings.Contains(got, "bodies") {
		t.Errorf("past the limit: %d %s", w.StatusCode, got)
	}
	cancel()
	eventually(t, "a body given back", func() bool { return s.Stats().Bodies == int64(len(ping)+1) })
	if w := s.post(ping); w.StatusCode != http.StatusOK {
		t.Errorf("after one has ended: %d", w.StatusCode)
	}
}

// TestMaxBatch: a batch of exactly the limit is served; see batch-large for more.
func TestMaxBatch(t *testing.T) {
	s := serve(t, Options{MaxBatch: 2}, accepting)
	for n, status := range map[int]int{2: http.StatusAccepted, 3: http.StatusRequestEntityTooLarge} {
		body := "[" + strings.Repeat(note+",", n-1) + note + "]"
		if w := s.post(body); w.StatusCode != status {
			t.Errorf("%d messages: %d %s", n, w.StatusCode, read(t, w))
		}
	}
}

// TestPending: what waits for a client may be as large as the limit and no larger.
func TestPending(t *testing.T) {
	for over, kind := range map[int]session.EndKind{0: session.Final, 1: session.Parked} {
		s := serve(t, Options{Pending: 1000}, func(_ string, e session.Event) error {
			if sock := socketOf(e); sock != nil {
				opened(sock)
				pushed(sock, "s.1.1", "", strings.Repeat("x", 500-len("s.1.1")-64))
				pushed(sock, "s.1.2", "", strings.Repeat("y", 500-len("s.1.2")-64+over))
				final(sock)
			}
			return nil
		})
		got := read(t, s.get())
		if (kind == session.Final) != strings.Contains(got, "yyy") {
			t.Errorf("%d bytes over the limit: %q", over, got)
		}
	}
}

// TestBodyLimit: a client that takes too long over its body is cut short, also
// where the body is not wanted.
func TestBodyLimit(t *testing.T) {
	s := serve(t, Options{BodyLimit: 50 * time.Millisecond}, accepting)
	for head, status := range map[string]string{
		"POST / HTTP/1.1\r\nContent-Type: application/json\r\n": "408",
		"POST / HTTP/1.1\r\nContent-Type: text/plain\r\n":       "415",
		"PUT / HTTP/1.1\r\n":    "405",
		"GET / HTTP/1.1\r\n":    "408",
		"DELETE / HTTP/1.1\r\n": "408",
	} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, head+"Host: localhost\r\nMcp-Session-Id: abc\r\nContent-Length: 100\r\n\r\n{")
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		b, _ := io.ReadAll(c)
		if got := string(b); !strings.HasPrefix(got, "HTTP/1.1 "+status) {
			t.Errorf("%.20q got %q", head, got)
		}
		c.Close()
	}
}

// TestBodyOfGet: a GET with a few bytes of body is served, and its leaving is
// noticed; with a real body it is refused.
func TestBodyOfGet(t *testing.T) {
	s := serve(t, Options{}, accepting)
	ctx, cancel := context.WithCancel(t.Context())
	if w := s.call(ctx, http.MethodGet, "{}"); w.StatusCode != http.StatusOK {
		t.Errorf("a few bytes: %d", w.StatusCode)
	}
	cancel()
	eventually(t, "the client is gone", func() bool { return s.Stats().Streams == 0 })
	if w := s.call(t.Context(), http.MethodGet, padded(1<<10)); w.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body: %d", w.StatusCode)
	}
}

// TestBodyLimitEndsWithTheBody: the time for the body does not cut the stream that
// answers it.
func TestBodyLimitEndsWithTheBody(t *testing.T) {
	sessions, sockets := opener()
	s := serve(t, Options{BodyLimit: 100 * time.Millisecond}, sessions)
	w := s.post(ping)
	sock := <-sockets
	time.Sleep(200 * time.Millisecond)
	pushed(sock, "s.1.1", "1", pong)
	final(sock)
	if got := read(t, w); !strings.Contains(got, pong) {
		t.Errorf("got %q", got)
	}
}

// TestKeptConnections: one connection serves one exchange after another, also
// beyond the time that the writes of the first were given.
func TestKeptConnections(t *testing.T) {
	s := serve(t, Options{WriteLimit: 100 * time.Millisecond}, instant)
	for range 3 {
		if got := read(t, s.post(ping)); !strings.Contains(got, pong) {
			t.Errorf("got %q", got)
		}
		time.Sleep(150 * time.Millisecond)
	}
}
