package actor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// accepts is a handler that accepts WebSockets, with the tags that are asked for.
func accepts(t *testing.T) func(s *actor.State, w http.ResponseWriter, r *http.Request) {
	return func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		if _, err := s.AcceptWebSocket(w, r, r.URL.Query()["tag"]...); err != nil {
			t.Error(err)
		}
	}
}

// peer is a client's WebSocket.
type peer struct {
	*testing.T
	*websocket.Conn
}

func (w *web) dial(path string) peer {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, w.address(path), &websocket.DialOptions{HTTPClient: w.client})
	if err != nil {
		w.Fatal(err)
	}
	c.SetReadLimit(-1)
	w.Cleanup(func() { c.CloseNow() })
	return peer{w.T, c}
}

func (p peer) send(text string) {
	p.Helper()
	if err := p.Write(p.Context(), websocket.MessageText, []byte(text)); err != nil {
		p.Error(err)
	}
}

// next is what comes: a text, or the close.
func (p peer) next() string {
	ctx, cancel := context.WithTimeout(p.Context(), 10*time.Second)
	defer cancel()
	kind, b, err := p.Read(ctx)
	var closed websocket.CloseError
	switch {
	case errors.As(err, &closed):
		return fmt.Sprintf("closed %d %s", closed.Code, closed.Reason)
	case err != nil:
		return "lost"
	case kind == websocket.MessageBinary:
		return "binary " + string(b)
	}
	return string(b)
}

func (p peer) wants(all ...string) {
	p.Helper()
	for _, want := range all {
		if got := p.next(); got != want {
			p.Errorf("got %q, want %q", got, want)
		}
	}
}

// rests returns when the object is evicted.
func (w *web) rests(name string) {
	w.Helper()
	for end := time.Now().Add(5 * time.Second); w.Active(pageID(name)); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatal("the object does not come to rest")
		}
	}
}

func TestMessagesComeInAndGoOut(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: accepts(t), message: func(_ context.Context, _ *actor.State, ws *actor.WebSocket, m actor.Message) error {
		if m.Binary {
			return ws.SendBinary(append(m.Data, '!'))
		}
		if m.Text() == "fail" {
			return errors.New("no")
		}
		return ws.Send(m.Text() + "!")
	}})
	p := w.dial("a")
	p.send("hello")
	p.send("fail") // the WebSocket goes on
	p.Write(t.Context(), websocket.MessageBinary, []byte("raw"))
	p.wants("hello!", "binary raw!")
}

func TestWebSocketsAreFoundByTag(t *testing.T) {
	found := make(chan []int, 10)
	w := newWeb(t, actor.Options{}, pages{serve: accepts(t), message: func(_ context.Context, s *actor.State, ws *actor.WebSocket, m actor.Message) error {
		var ns []int
		for _, tags := range [][]string{nil, {"red"}, {"blue"}, {"red", "blue"}, {"none"}, {""}} {
			all, err := s.WebSockets(tags...)
			if err != nil {
				return err
			}
			ns = append(ns, len(all))
			for _, ws := range all {
				if tags != nil {
					ws.Send(strings.Join(ws.Tags(), "+"))
				}
			}
		}
		found <- ns
		return nil
	}})
	a, b := w.dial("a?tag=red&tag=blue&tag=red"), w.dial("a?tag=blue")
	w.dial("b?tag=red")
	a.send("go")
	if got := <-found; !slices.Equal(got, []int{2, 1, 2, 1, 0, 0}) {
		t.Errorf("found %v", got)
	}
	a.wants("red+blue", "red+blue", "red+blue")
	b.wants("blue")
}

func TestWhatIsNoWebSocketIsRefused(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		many := make([]string, actor.MaxTags+1)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		refused := func(err, want error) {
			t.Helper()
			var e *actor.Error
			if !errors.Is(err, want) || !errors.As(err, &e) || e.Op != "accept WebSocket" || e.ID != s.ID() {
				t.Errorf("%s: %v, want %v", r.URL.Path, err, want)
			}
		}
		accept := func(tags ...string) error { _, err := s.AcceptWebSocket(w, r, tags...); return err }
		switch r.URL.Path {
		case "/plain":
			refused(accept(), actor.ErrWebSocket)
			http.Error(w, "a WebSocket is wanted", http.StatusUpgradeRequired)
		case "/answered":
			w.WriteHeader(http.StatusTeapot)
			refused(accept(), actor.ErrWebSocket)
		case "/foreign":
			refused(accept(), actor.ErrWebSocket)
			w.WriteHeader(http.StatusForbidden)
		case "/tags":
			refused(accept(many...), actor.ErrTag)
			refused(accept(strings.Repeat("t", actor.MaxTag+1)), actor.ErrTag)
			many[0] = strings.Repeat("t", actor.MaxTag)
			if err := accept(append(many[:actor.MaxTags], many[1])...); err != nil {
				t.Error(err)
			}
			refused(accept(), actor.ErrWebSocket)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
				t.Error(err)
			}
		}
	}})
	header := func(h ...string) *websocket.DialOptions {
		o := &websocket.DialOptions{HTTPClient: w.client, HTTPHeader: http.Header{}}
		if h != nil {
			o.HTTPHeader.Set(h[0], h[1])
		}
		return o
	}
	if res, _ := w.do(http.MethodGet, "a/plain", ""); res.StatusCode != http.StatusUpgradeRequired {
		t.Error(res.Status)
	}
	for path, status := range map[string]int{"answered": 418, "foreign": 403, "tags": 101} {
		c, res, err := websocket.Dial(t.Context(), w.address("a/"+path), header("Origin", map[bool]string{true: "http://evil.example", false: w.server.URL}[path == "foreign"]))
		if res == nil || res.StatusCode != status {
			t.Errorf("%s: %v, %v", path, res, err)
		}
		if c != nil {
			c.CloseNow()
		}
	}
}

// I2.
func TestNoFrameLeavesBeforeTheWritesItRestsOn(t *testing.T) {
	store := newHeldStore(t)
	w := newWeb(t, actor.Options{Store: store}, pages{serve: accepts(t), message: func(ctx context.Context, s *actor.State, ws *actor.WebSocket, m actor.Message) error {
		write := func(ctx context.Context) error {
			s.Put("a", []byte(m.Text()))
			ws.Send("stored " + m.Text())
			return s.Await(ctx, func(context.Context) error { return nil })
		}
		if m.Text() == "transaction" {
			return s.Transaction(ctx, write)
		}
		return write(ctx)
	}})
	p := w.dial("a")
	store.held.Store(true)
	for _, m := range []string{"plain", "transaction"} {
		p.send(m)
		got := make(chan string)
		go func() { got <- p.next() }()
		select {
		case f := <-got:
			t.Errorf("%q left before it was durable", f)
		case <-time.After(settle):
		}
		store.let <- struct{}{}
		if f := <-got; f != "stored "+m {
			t.Errorf("got %q", f)
		}
	}
}

func TestAHibernatingObjectIsWoken(t *testing.T) {
	var made atomic.Int32
	w := newWeb(t, actor.Options{EvictAfter: time.Millisecond}, pages{
		construct: func(s *actor.State) {
			made.Add(1)
			if err := s.SetAutoResponse("ping", "pong"); err != nil {
				t.Error(err)
			}
		},
		serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
			ws, err := s.AcceptWebSocket(w, r, "red")
			if err != nil {
				t.Error(err)
				return
			}
			if err := ws.Attach(map[string]int{"seat": 7}); err != nil {
				t.Error(err)
			}
		},
		message: func(_ context.Context, s *actor.State, ws *actor.WebSocket, m actor.Message) error {
			var kept map[string]int
			ok, err := ws.Attachment(&kept)
			all, _ := s.WebSockets()
			return errors.Join(err, ws.Send(fmt.Sprintf("%s %v %v %v %d %v", m.Text(), ok, kept["seat"], ws.Tags(), len(all), !ws.AutoResponded().IsZero())))
		},
		closed: func(s *actor.State, _ *actor.WebSocket, c actor.Close) {
			s.Put("closed", fmt.Appendf(nil, "%d %s %v", c.Code, c.Reason, c.Clean))
		},
	})
	p := w.dial("a")
	w.rests("a")
	p.send("ping")
	p.wants("pong")
	if w.Active(pageID("a")) || made.Load() != 1 {
		t.Error("an automatic answer has woken the object")
	}
	p.send("hello")
	p.wants("hello true 7 [red] 1 true")
	if made.Load() != 2 {
		t.Errorf("%d incarnations, want 2", made.Load())
	}
	w.rests("a")
	p.Close(3001, "enough")
	wantRow(t, w.Store(), "a", "closed", "3001 enough true")
}

// wantRow waits for a row.
func wantRow(t *testing.T, s storage.Store, name, key, want string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		v, err := s.Get(t.Context(), pageID(name), key)
		if err != nil {
			t.Fatal(err)
		}
		if got = string(v); got == want {
			return
		}
	}
	t.Errorf("%s is %q, want %q", key, got, want)
}

func TestAutomaticAnswersAreReplacedAndCleared(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: accepts(t), message: func(_ context.Context, s *actor.State, ws *actor.WebSocket, m actor.Message) error {
		switch m.Text() {
		case "set":
			if _, _, ok := s.AutoResponse(); ok {
				t.Error("there is one before any was set")
			}
			s.SetAutoResponse("ping", "pong")
			s.SetAutoResponse("ping", "pang")
			long := strings.Repeat("x", actor.MaxAutoResponse)
			for _, c := range []struct {
				a, b string
				ok   bool
			}{{long + "x", "", false}, {"", long + "x", false}, {long, long, true}, {"ping", "pang", true}} {
				if err := s.SetAutoResponse(c.a, c.b); (err == nil) != c.ok || !c.ok && !errors.Is(err, actor.ErrTooLarge) {
					t.Errorf("%d and %d bytes: %v", len(c.a), len(c.b), err)
				}
			}
			if a, b, ok := s.AutoResponse(); a != "ping" || b != "pang" || !ok {
				t.Errorf("%q %q %v", a, b, ok)
			}
		case "clear":
			s.ClearAutoResponse()
		}
		return ws.Send("got " + m.Text())
	}})
	p := w.dial("a")
	for _, c := range [][2]string{
		{"ping", "got ping"}, {"set", "got set"}, {"ping", "pang"}, {"pingx", "got pingx"}, {"clear", "got clear"}, {"ping", "got ping"},
	} {
		p.send(c[0])
		p.wants(c[1])
	}
}

func TestAResetClosesWebSockets(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: accepts(t), message: func(_ context.Context, s *actor.State, ws *actor.WebSocket, m actor.Message) error {
		all, err := s.WebSockets()
		return errors.Join(err, ws.Send(fmt.Sprint(len(all))))
	}, closed: func(*actor.State, *actor.WebSocket, actor.Close) { t.Error("an object that was reset is told of it") }})
	for _, c := range actor.Causes() {
		p, q := w.dial("a"), w.dial("a")
		p.send("go")
		p.wants("2")
		w.Reset(pageID("a"), c, errors.New("a secret"))
		code := 1012
		if c == actor.Shutdown {
			code = 1001
		}
		want := fmt.Sprintf("closed %d %s", code, c.Sentence())
		p.wants(want)
		q.wants(want)
	}
}

func TestTheHostsEndClosesWebSockets(t *testing.T) {
	w := newWeb(t, actor.Options{EvictAfter: time.Millisecond}, pages{serve: accepts(t)})
	p, q := w.dial("a"), w.dial("b")
	w.rests("a")
	done := make(chan error)
	go func() { done <- w.Shutdown(t.Context()) }()
	p.wants("closed 1001 " + actor.Shutdown.Sentence())
	q.wants("closed 1001 " + actor.Shutdown.Sentence())
	if err := <-done; err != nil {
		t.Error(err)
	}
	if res, _ := w.do(http.MethodGet, "a", ""); res.StatusCode != http.StatusServiceUnavailable {
		t.Error(res.Status)
	}
}

// A client that does not answer the close is cut off in a moment.
func TestTheHostsEndWaitsForNoClient(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: accepts(t)})
	p := w.dial("a") // and never reads
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	began := time.Now()
	w.Shutdown(ctx)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
	p.CloseNow()
}

func TestAnObjectClosesItsWebSockets(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: accepts(t), message: func(_ context.Context, s *actor.State, ws *actor.WebSocket, m actor.Message) error {
		for _, c := range []struct {
			code   int
			reason string
		}{{999, ""}, {1005, ""}, {1006, ""}, {1015, ""}, {2999, ""}, {5000, ""}, {1000, strings.Repeat("r", 124)}} {
			if err := ws.Close(c.code, c.reason); !errors.Is(err, actor.ErrClose) {
				t.Errorf("%d with %d bytes: %v", c.code, len(c.reason), err)
			}
		}
		ws.Send("before")
		if !ws.Open() {
			t.Error("a close that was refused closed it")
		}
		if err := ws.Close(4999, strings.Repeat("r", 123)); err != nil || ws.Open() {
			t.Errorf("%v, open %v", err, ws.Open())
		}
		if err := ws.Send("after"); !errors.Is(err, actor.ErrClosed) {
			t.Errorf("after it: %v", err)
		}
		if all, _ := s.WebSockets(); len(all) != 1 {
			t.Errorf("%d are listed", len(all))
		}
		return ws.Close(1000, "again") // which changes nothing
	}, closed: func(s *actor.State, ws *actor.WebSocket, c actor.Close) {
		all, _ := s.WebSockets()
		s.Put("closed", fmt.Appendf(nil, "%d %v %d", c.Code, c.Clean, len(all)))
	}})
	p := w.dial("a")
	p.send("go")
	p.wants("before", "closed 4999 "+strings.Repeat("r", 123))
	wantRow(t, w.Store(), "a", "closed", "4999 true 1")
}

func TestAConnectionThatIsLostIsACloseToo(t *testing.T) {
	gone := make(chan struct{})
	w := newWeb(t, actor.Options{}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		accepts(t)(s, w, r)
		if r.URL.Path == "/slow" {
			s.Await(r.Context(), func(ctx context.Context) error { close(gone); <-ctx.Done(); <-r.Context().Done(); return nil })
		}
	}, closed: func(s *actor.State, ws *actor.WebSocket, c actor.Close) {
		s.Put("closed", fmt.Appendf(nil, "%d %v", c.Code, c.Clean))
	}})
	w.dial("a").CloseNow()
	wantRow(t, w.Store(), "a", "closed", "1006 false")
	// One that is gone before there is a connection.
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-gone; cancel() }()
	w.Reset(pageID("b"), actor.Aborted, nil)
	if _, _, err := websocket.Dial(ctx, w.address("b/slow"), &websocket.DialOptions{HTTPClient: w.client}); err == nil {
		t.Error("it is connected")
	}
	wantRow(t, w.Store(), "b", "closed", "1006 false")
}

func TestWebSocketsOfAnObjectAreBounded(t *testing.T) {
	const most = 2
	w := newWeb(t, actor.Options{Web: actor.Web{MaxWebSockets: most}}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		_, err := s.AcceptWebSocket(w, r)
		if err != nil {
			var e *actor.Error
			if !errors.As(err, &e) || !e.Overloaded() || e.Hint == "" {
				t.Errorf("%v", err)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, closed: func(s *actor.State, ws *actor.WebSocket, c actor.Close) { s.Put("closed", []byte("yes")) }})
	p := w.dial("a")
	w.dial("a")
	if _, res, err := websocket.Dial(t.Context(), w.address("a"), &websocket.DialOptions{HTTPClient: w.client}); err == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one too many: %v", err)
	}
	w.dial("b")
	p.Close(1000, "")
	wantRow(t, w.Store(), "a", "closed", "yes")
	w.dial("a")
}

func TestAMessageIsBounded(t *testing.T) {
	const most = 1000
	w := newWeb(t, actor.Options{Web: actor.Web{MaxMessage: most}}, pages{serve: accepts(t),
		message: func(_ context.Context, s *actor.State, ws *actor.WebSocket, m actor.Message) error {
			return ws.Send(fmt.Sprint(len(m.Data)))
		},
		failed: func(s *actor.State, ws *actor.WebSocket, err error) {
			if !errors.Is(err, websocket.ErrMessageTooBig) {
				t.Error(err)
			}
			s.Put("failed", []byte("yes"))
		},
		closed: func(*actor.State, *actor.WebSocket, actor.Close) { t.Error("a close as well") },
	})
	p := w.dial("a")
	p.send(strings.Repeat("x", most))
	p.wants(fmt.Sprint(most))
	p.send(strings.Repeat("x", most+1))
	if got := p.next(); !strings.HasPrefix(got, "closed 1009 ") {
		t.Errorf("got %q", got)
	}
	wantRow(t, w.Store(), "a", "failed", "yes")
}

// A client that does not read is cut off, and not left with a gap.
func TestWhatWaitsForAClientIsBounded(t *testing.T) {
	const most = 1000
	block := make(chan struct{})
	w := newWeb(t, actor.Options{Web: actor.Web{MaxUnsent: most}}, pages{serve: accepts(t), message: func(ctx context.Context, s *actor.State, ws *actor.WebSocket, m actor.Message) error {
		if err := ws.Send(strings.Repeat("x", most+1)); !errors.Is(err, actor.ErrTooLarge) || !ws.Open() {
			t.Errorf("a message that is too large: %v, open %v", err, ws.Open())
		}
		if err := ws.Send(strings.Repeat("x", most)); err != nil {
			t.Error(err)
		}
		// It is not sent before this turn has ended.
		if err := ws.Send("x"); !errors.Is(err, actor.ErrSlow) || ws.Open() {
			t.Errorf("one more byte: %v, open %v", err, ws.Open())
		}
		close(block)
		return nil
	}})
	p := w.dial("a")
	p.send("go")
	<-block
	if got := p.next(); !strings.HasPrefix(got, "closed 1013 ") {
		t.Errorf("got %.30q", got)
	}
}

// Nor do many small messages, or empty ones, fill the memory for a client that does not
// read: each counts for more than its bytes.
func TestSmallMessagesThatWaitForAClientAreBounded(t *testing.T) {
	const most = 10_000
	sent := make(chan int, 1)
	w := newWeb(t, actor.Options{Web: actor.Web{MaxUnsent: most}}, pages{serve: accepts(t), message: func(_ context.Context, _ *actor.State, ws *actor.WebSocket, _ actor.Message) error {
		n := 0
		for ; n <= most; n++ {
			if err := ws.Send(""); errors.Is(err, actor.ErrSlow) { // none leaves before the turn has ended
				break
			} else if err != nil {
				t.Error(err)
			}
		}
		sent <- n
		return nil
	}})
	p := w.dial("a")
	p.send("go")
	if n := <-sent; n > most/10 || n < most/1000 {
		t.Errorf("%d empty messages wait for a client that may have %d bytes waiting", n, most)
	}
}

// A text message that is no text would have the client break the connection off.
func TestATextMessageIsText(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{
		construct: func(s *actor.State) {
			if err := s.SetAutoResponse("\xff", "x"); !errors.Is(err, actor.ErrText) {
				t.Errorf("a request of an automatic answer: %v", err)
			}
			if err := s.SetAutoResponse("x", "\xff"); !errors.Is(err, actor.ErrText) {
				t.Errorf("an automatic answer: %v", err)
			}
		},
		serve: accepts(t),
		message: func(_ context.Context, _ *actor.State, ws *actor.WebSocket, m actor.Message) error {
			if err := ws.Send("a\xff"); !errors.Is(err, actor.ErrText) {
				t.Errorf("a message: %v", err)
			}
			if err := ws.Close(1000, "a\xff"); !errors.Is(err, actor.ErrText) {
				t.Errorf("a close: %v", err)
			}
			return ws.SendBinary([]byte("b\xff"))
		},
	})
	p := w.dial("a")
	p.send("go")
	p.wants("binary b\xff")
}

// One client's messages do not fill the queue that others use as well.
func TestWhatOneClientHasWaitingIsBounded(t *testing.T) {
	let := make(chan struct{})
	var got atomic.Int32
	w := newWeb(t, actor.Options{MaxQueued: 20}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			accepts(t)(s, w, r)
		}
	}, message: func(ctx context.Context, s *actor.State, ws *actor.WebSocket, m actor.Message) error {
		if got.Add(1) == 1 {
			<-let
		}
		return nil
	}})
	p := w.dial("a")
	const sent = 100
	for range sent {
		p.send("x")
	}
	time.Sleep(settle)
	done := make(chan int)
	go func() { res, _ := w.do(http.MethodGet, "a/other", ""); done <- res.StatusCode }()
	time.Sleep(settle)
	close(let)
	if status := <-done; status != http.StatusOK {
		t.Errorf("another's request: %d", status)
	}
	for end := time.Now().Add(5 * time.Second); got.Load() != sent; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d messages came", got.Load(), sent)
		}
	}
}

// An object whose queue is full holds its clients up, and loses none of their messages.
func TestAFullQueueLosesNoMessage(t *testing.T) {
	let := make(chan struct{})
	got := make(chan string, 100)
	w := newWeb(t, actor.Options{MaxQueued: 2}, pages{serve: accepts(t), message: func(_ context.Context, _ *actor.State, _ *actor.WebSocket, m actor.Message) error {
		<-let
		got <- m.Text()
		return nil
	}})
	p := w.dial("a")
	const sent = 10
	for n := range sent {
		p.send(strconv.Itoa(n))
	}
	time.Sleep(settle)
	close(let)
	for n := range sent {
		select {
		case m := <-got:
			if m != strconv.Itoa(n) {
				t.Errorf("message %d is %q", n, m)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("message %d does not come", n)
		}
	}
}

func TestAttachmentsAreBounded(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: accepts(t), message: func(_ context.Context, _ *actor.State, ws *actor.WebSocket, _ actor.Message) error {
		var kept string
		if ok, err := ws.Attachment(&kept); ok || err != nil {
			t.Errorf("before any: %v, %v", ok, err)
		}
		largest := strings.Repeat("x", actor.MaxAttachment-2) // and two quotes
		if err := ws.Attach(largest); err != nil {
			t.Error(err)
		}
		if err := ws.Attach(largest + "x"); !errors.Is(err, actor.ErrTooLarge) {
			t.Error(err)
		}
		if err := ws.Attach(func() {}); err == nil {
			t.Error("a function is attached")
		}
		if ok, err := ws.Attachment(&kept); !ok || err != nil || kept != largest {
			t.Errorf("kept %d bytes, %v, %v", len(kept), ok, err)
		}
		var n int
		if _, err := ws.Attachment(&n); err == nil {
			t.Error("a text is a number")
		}
		return ws.Send("done")
	}})
	p := w.dial("a")
	p.send("go")
	p.wants("done")
}

func TestWebSocketsBelongToTheObjectsCode(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: accepts(t), message: func(ctx context.Context, s *actor.State, ws *actor.WebSocket, _ actor.Message) error {
		s.Await(ctx, func(context.Context) error {
			_, list := s.WebSockets()
			for _, err := range []error{ws.Send("x"), ws.Close(1000, ""), ws.Attach(1), s.SetAutoResponse("", ""), list} {
				if !errors.Is(err, actor.ErrNoTurn) {
					t.Errorf("while it awaits: %v", err)
				}
			}
			return nil
		})
		return ws.Send("done")
	}})
	p := w.dial("a")
	p.send("go")
	p.wants("done")
}
