package actor_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// pages are objects whose code is a test's.
type pages struct {
	construct func(s *actor.State)
	serve     func(s *actor.State, w http.ResponseWriter, r *http.Request)
	message   func(ctx context.Context, s *actor.State, ws *actor.WebSocket, m actor.Message) error
	closed    func(s *actor.State, ws *actor.WebSocket, c actor.Close)
	failed    func(s *actor.State, ws *actor.WebSocket, err error)
}

type pageObject struct {
	s *actor.State
	*pages
}

func (p *pageObject) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.serve(p.s, w, r) }

func (p *pageObject) WebSocketMessage(ctx context.Context, ws *actor.WebSocket, m actor.Message) error {
	if p.message == nil {
		return nil
	}
	return p.message(ctx, p.s, ws, m)
}

func (p *pageObject) WebSocketClose(_ context.Context, ws *actor.WebSocket, c actor.Close) error {
	if p.closed != nil {
		p.closed(p.s, ws, c)
	}
	return nil
}

func (p *pageObject) WebSocketError(_ context.Context, ws *actor.WebSocket, err error) error {
	if p.failed != nil {
		p.failed(p.s, ws, err)
	}
	return nil
}

// web is a host with pages, and a server before it.
type web struct {
	*testing.T
	*actor.Host
	server *httptest.Server
	client *http.Client
}

func newWeb(t *testing.T, o actor.Options, p pages) *web {
	t.Helper()
	if o.Store == nil {
		s := storage.NewMemory()
		t.Cleanup(func() { s.Close() })
		o.Store = s
	}
	o.Logger = quiet
	h, err := actor.NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	actor.Define("page", func(_ context.Context, s *actor.State) (*pageObject, error) {
		if p.construct != nil {
			p.construct(s)
		}
		if s.ID().Name == "unmakeable" {
			return nil, errors.New("a secret")
		}
		return &pageObject{s, &p}, nil
	}).Serve().Register(h)
	counters.Register(h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	w := &web{t, h, httptest.NewServer(h.Handler()), &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		w.client.CloseIdleConnections()
		w.server.CloseClientConnections()
		w.server.Close()
	})
	return w
}

func pageID(name string) storage.ID { return storage.ID{Class: "page", Name: name} }

func (w *web) address(path string) string { return w.server.URL + "/objects/page/" + path }

func (w *web) do(method, path, body string) (*http.Response, string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, w.address(path), strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	res, err := w.client.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	return res, string(b)
}

// open begins a request and returns when its header has come.
func (w *web) open(ctx context.Context, path string) *http.Response {
	w.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.address(path), nil)
	if err != nil {
		w.Fatal(err)
	}
	res, err := w.client.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { res.Body.Close() })
	return res
}

// heldStore confirms commits when it is told to.
type heldStore struct {
	storage.Store
	held atomic.Bool
	let  chan struct{}
}

func newHeldStore(t *testing.T) *heldStore {
	m := storage.NewMemory()
	t.Cleanup(func() { m.Close() })
	return &heldStore{Store: m, let: make(chan struct{})}
}

func (s *heldStore) Submit(b *storage.Batch, done func(error)) {
	if !s.held.Load() {
		s.Store.Submit(b, done)
		return
	}
	go func() { <-s.let; s.Store.Submit(b, done) }()
}

func TestAnObjectIsAHandler(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Object", s.ID().Name)
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery+" "+string(body))
	}})
	for _, c := range []struct{ path, name, want string }{
		{"a", "a", "POST /? in"},
		{"a/", "a", "POST /? in"},
		{"a/b/c?d=e", "a", "POST /b/c?d=e in"},
		{"a%2Fb/c%2Fd", "a/b", "POST /c/d? in"},
	} {
		res, got := w.do(http.MethodPost, c.path, "in")
		if got != c.want || res.StatusCode != http.StatusCreated || res.Header.Get("X-Object") != c.name {
			t.Errorf("%s: %s %q of %q, want %q of %q", c.path, res.Status, got, res.Header.Get("X-Object"), c.want, c.name)
		}
		if res.ContentLength != int64(len(c.want)) {
			t.Errorf("%s: a whole response has content length %d", c.path, res.ContentLength)
		}
	}
}

func TestAddressesThatNoObjectHas(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: func(*actor.State, http.ResponseWriter, *http.Request) {}})
	for path, status := range map[string]int{
		"/objects/": 404, "/objects/page": 404, "/objects/page/": 404, "/objects//a": 404,
		"/objects/counter/a": 404, // is not served
		"/objects/none/a":    404, "/objects/page/a%00": 404, "/objects/page/" + strings.Repeat("n", storage.MaxName+1): 404,
		"/objects/page/" + strings.Repeat("n", storage.MaxName): 200,
	} {
		res, err := w.client.Get(w.server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%.40s: %s, want %d", path, res.Status, status)
		}
	}
}

func TestServeWantsAHandler(t *testing.T) {
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, `"bare"`) || !strings.Contains(p, "ServeHTTP") {
			t.Errorf("panicked with %q", p)
		}
	}()
	actor.Define("bare", func(context.Context, *actor.State) (*thing, error) { return nil, nil }).Serve()
}

// I2.
func TestNoByteLeavesBeforeTheWritesItRestsOn(t *testing.T) {
	store := newHeldStore(t)
	w := newWeb(t, actor.Options{Store: store}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/end":
			s.Put("a", []byte("1"))
			io.WriteString(w, "stored")
		case "/flush":
			io.WriteString(w, "before ")
			w.(http.Flusher).Flush()
			s.Put("a", []byte("1"))
			io.WriteString(w, "after ")
			w.(http.Flusher).Flush()
			s.Put("a", []byte("2"))
			io.WriteString(w, "end")
		case "/transaction":
			s.Transaction(r.Context(), func(ctx context.Context) error {
				s.Put("a", []byte("1"))
				io.WriteString(w, "in it")
				http.NewResponseController(w).Flush()
				return s.Await(ctx, func(context.Context) error { return nil })
			})
			io.WriteString(w, " and after it")
		}
	}})
	w.do(http.MethodGet, "a", "")
	store.held.Store(true)
	for path, parts := range map[string][]string{"end": {"", "stored"}, "flush": {"before ", "after ", "end"}, "transaction": {"", "in it and after it"}} {
		got := make(chan string, 10)
		go func() {
			defer close(got)
			res, err := w.client.Get(w.address("a/" + path))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			for {
				b := make([]byte, 100)
				n, err := res.Body.Read(b)
				if n > 0 {
					got <- string(b[:n])
				}
				if err != nil {
					return
				}
			}
		}()
		for i, want := range parts {
			if i > 0 {
				store.let <- struct{}{}
			}
			part := ""
			for more := true; more && len(part) < len(want); {
				var p string
				p, more = <-got
				part += p
			}
			if part != want {
				t.Errorf("%s: part %d is %q, want %q", path, i, part, want)
			}
			if i < len(parts)-1 {
				select {
				case p := <-got:
					t.Errorf("%s: %q left before it was durable", path, p)
				case <-time.After(settle):
				}
			}
		}
		for p := range got {
			t.Errorf("%s: %q as well", path, p)
		}
	}
}

func TestAFlushInATransactionCommitsNothing(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			v, _ := s.Get("a")
			w.Write(v)
			return
		}
		s.Transaction(r.Context(), func(context.Context) error {
			s.Put("a", []byte("1"))
			w.(http.Flusher).Flush()
			return actor.ErrRollback
		})
	}})
	w.do(http.MethodGet, "a/transaction", "")
	if _, got := w.do(http.MethodGet, "a/", ""); got != "" {
		t.Errorf("a transaction that was rolled back has written %q", got)
	}
}

func TestAResponseStreams(t *testing.T) {
	next := make(chan struct{})
	w := newWeb(t, actor.Options{}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		for _, part := range []string{"one", "two"} {
			io.WriteString(w, part)
			w.(http.Flusher).Flush()
			s.Await(r.Context(), func(context.Context) error { <-next; return nil })
		}
		// What is written while it awaits, with the baton given back, leaves at once.
		s.Await(r.Context(), func(context.Context) error {
			io.WriteString(w, "three")
			w.(http.Flusher).Flush()
			<-next
			return nil
		})
	}})
	body := w.open(t.Context(), "a").Body
	b := make([]byte, 10)
	for _, want := range []string{"one", "two", "three"} {
		n, err := body.Read(b)
		if string(b[:n]) != want || err != nil {
			t.Errorf("read %q, %v, want %q", b[:n], err, want)
		}
		next <- struct{}{}
	}
	if n, err := body.Read(b); n != 0 || err != io.EOF {
		t.Errorf("then %q, %v", b[:n], err)
	}
}

func TestAResetBeforeAndInAResponse(t *testing.T) {
	reached := make(chan struct{}, 1)
	w := newWeb(t, actor.Options{}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sent":
			io.WriteString(w, "some")
			w.(http.Flusher).Flush()
		case "/panic":
			panic("a secret")
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/epoch":
			io.WriteString(w, "alive")
			return
		}
		reached <- struct{}{}
		s.Await(r.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil })
		<-r.Context().Done()
	}})
	for _, c := range []struct {
		cause  actor.Cause
		status int
	}{
		{actor.MemoryLimit, 503}, {actor.CPULimit, 503}, {actor.CacheOverflow, 503}, {actor.CodeUpdated, 503},
		{actor.Aborted, 500}, {actor.CommitFailed, 500},
	} {
		go func() { <-reached; w.Reset(pageID("a"), c.cause, errors.New("a secret")) }()
		res, got := w.do(http.MethodGet, "a", "")
		if res.StatusCode != c.status || res.Header.Get(actor.HeaderCause) != c.cause.String() || !strings.Contains(got, c.cause.Sentence()) ||
			strings.Contains(got, "secret") || (c.status == 503) != (res.Header.Get("Retry-After") != "") {
			t.Errorf("%v: %s %v %q", c.cause, res.Status, res.Header, got)
		}
	}
	for path, cause := range map[string]actor.Cause{"a/panic": actor.Panicked, "unmakeable": actor.ConstructorFailed} {
		if res, got := w.do(http.MethodGet, path, ""); res.StatusCode != http.StatusInternalServerError || res.Header.Get(actor.HeaderCause) != cause.String() || strings.Contains(got, "secret") {
			t.Errorf("%s: %s %v %q", path, res.Status, res.Header, got)
		}
	}

	res := w.open(t.Context(), "a/sent")
	<-reached
	w.Reset(pageID("a"), actor.MemoryLimit, nil)
	if b, err := io.ReadAll(res.Body); string(b) != "some" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("in its middle: %q, %v", b, err)
	}

	w.do(http.MethodGet, "a/epoch", "")
	before := w.Epoch(pageID("a"))
	if _, err := w.client.Get(w.address("a/abort")); !errors.Is(err, io.EOF) {
		t.Errorf("the handler gave up: %v", err)
	}
	if now := w.Epoch(pageID("a")); now != before {
		t.Errorf("a handler that gives up resets its object: epoch %d after %d", now, before)
	}
}

func TestARequestThatHasNotBegunIsPassedOnAgain(t *testing.T) {
	var served atomic.Int32
	blocked := make(chan struct{})
	w := newWeb(t, actor.Options{}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/block" {
			close(blocked)
			<-r.Context().Done()
			return
		}
		served.Add(1)
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	}})
	lost := make(chan int)
	go func() { res, _ := w.do(http.MethodGet, "a/block", ""); lost <- res.StatusCode }()
	<-blocked
	got := make(chan string)
	go func() { _, b := w.do(http.MethodPost, "a", "body"); got <- b }()
	time.Sleep(settle) // it waits behind the one that blocks
	w.Reset(pageID("a"), actor.MemoryLimit, nil)
	if b := <-got; b != "body" || served.Load() != 1 {
		t.Errorf("%q, served %d times", b, served.Load())
	}
	if status := <-lost; status != 503 {
		t.Errorf("the one that had begun: %d", status)
	}
}

func TestAClientThatGoesAwayCancels(t *testing.T) {
	began, cause := make(chan struct{}), make(chan error, 1)
	w := newWeb(t, actor.Options{}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		close(began)
		s.Await(r.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil })
		_, err := io.WriteString(w, "to whom?")
		cause <- errors.Join(err, context.Cause(r.Context()))
	}})
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.address("a"), nil)
	go func() { <-began; cancel() }()
	if _, err := w.client.Do(r); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-cause; !errors.Is(err, actor.ErrClientGone) {
		t.Errorf("the handler saw %v", err)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	const most = 2000
	w := newWeb(t, actor.Options{Web: actor.Web{MaxBody: most, MaxBodies: 4000, Patience: 100 * time.Millisecond}}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if n != r.ContentLength && r.ContentLength >= 0 {
			t.Errorf("%d bytes of %d", n, r.ContentLength)
		}
		if n != most && n != 0 {
			t.Errorf("%d bytes", n)
		}
	}})
	for n, status := range map[int]int{0: 200, most: 200, most + 1: 413} {
		if res, _ := w.do(http.MethodPost, "a", strings.Repeat("x", n)); res.StatusCode != status {
			t.Errorf("%d bytes: %s, want %d", n, res.Status, status)
		}
		// Without an announced length.
		res, err := w.client.Post(w.address("a"), "", struct{ io.Reader }{strings.NewReader(strings.Repeat("x", n))})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%d bytes in chunks: %s, want %d", n, res.Status, status)
		}
	}
	// One that does not come.
	in, out := io.Pipe()
	defer out.Close()
	if res, err := w.client.Post(w.address("a"), "", in); err == nil {
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("a body that does not come: %s", res.Status)
		}
		res.Body.Close()
	}
}

func TestBodiesOfAllRequestsAreBounded(t *testing.T) {
	block, began := make(chan struct{}), make(chan struct{}, 3)
	w := newWeb(t, actor.Options{Web: actor.Web{MaxBodies: 2 * 1001}}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 1000 {
			began <- struct{}{}
			s.Await(r.Context(), func(context.Context) error { <-block; return nil })
		}
	}})
	done := make(chan int, 2)
	for range 2 {
		go func() { res, _ := w.do(http.MethodPost, "a", strings.Repeat("x", 1000)); done <- res.StatusCode }()
		<-began
	}
	if res, _ := w.do(http.MethodPost, "a", "x"); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s", res.Status)
	}
	if res, _ := w.do(http.MethodGet, "a", ""); res.StatusCode != http.StatusOK {
		t.Errorf("one without a body: %s", res.Status)
	}
	close(block)
	for range 2 {
		if status := <-done; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	if res, _ := w.do(http.MethodPost, "a", "x"); res.StatusCode != http.StatusOK {
		t.Errorf("when they are gone: %s", res.Status)
	}
}

// A client that does not read holds its response up, and the object goes on.
func TestAResponseIsBounded(t *testing.T) {
	const most = 1000
	var wrote atomic.Int64
	w := newWeb(t, actor.Options{Web: actor.Web{MaxUnsent: most}}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for {
				n, err := w.Write(make([]byte, most))
				wrote.Add(int64(n))
				if err != nil {
					return
				}
			}
		case "/transaction":
			s.Transaction(r.Context(), func(context.Context) error {
				if _, err := w.Write(make([]byte, most)); err != nil {
					t.Error(err)
				}
				if _, err := w.Write([]byte{0}); !errors.Is(err, actor.ErrTooLarge) {
					t.Errorf("one more: %v", err)
				}
				return nil
			})
		case "/large":
			w.Write(make([]byte, 10*most+1))
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.open(ctx, "a/endless")
	for last := int64(-1); last != wrote.Load(); time.Sleep(2 * settle) {
		last = wrote.Load() // until the buffers between here and there are full
	}
	if _, got := w.do(http.MethodGet, "a/large", ""); len(got) != 10*most+1 {
		t.Errorf("%d bytes", len(got))
	}
	if _, got := w.do(http.MethodGet, "a/transaction", ""); len(got) != most {
		t.Errorf("%d bytes out of a transaction", len(got))
	}
}

func TestObjectsCallEachOtherOverHTTP(t *testing.T) {
	var w *web
	w = newWeb(t, actor.Options{}, pages{serve: func(s *actor.State, rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/cycle":
			s.Critical(r.Context(), func(ctx context.Context) error {
				w.Stub(s.ID()).ServeHTTP(rw, r.WithContext(ctx))
				return nil
			})
		case s.ID().Name == "a":
			io.WriteString(rw, "a ")
			w.Stub(pageID("b")).ServeHTTP(rw, r)
			if err := s.Put("x", nil); err != nil {
				t.Errorf("the baton did not come back: %v", err)
			}
		default:
			io.WriteString(rw, "b")
			if r.URL.Path == "/abort" {
				panic(http.ErrAbortHandler)
			}
		}
	}})
	if _, got := w.do(http.MethodGet, "a", ""); got != "a b" {
		t.Errorf("got %q", got)
	}
	if res, got := w.do(http.MethodGet, "a/cycle", ""); res.StatusCode != http.StatusLoopDetected {
		t.Errorf("a cycle: %s %q", res.Status, got)
	}
	if _, err := w.client.Get(w.address("a/abort")); err == nil {
		t.Error("a response that was broken off looks whole")
	}
	if _, got := w.do(http.MethodGet, "a", ""); got != "a b" {
		t.Errorf("afterwards %q", got)
	}
}

func TestStubsOfObjectsThatDoNotServe(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{})
	for status, stub := range map[int]actor.Stub{501: w.Stub(storage.ID{Class: "counter", Name: "a"}), 404: w.Stub(storage.ID{Class: "none", Name: "a"}), 500: {}} {
		got := httptest.NewRecorder()
		stub.ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/", nil))
		if got.Code != status {
			t.Errorf("%v: %d, want %d", stub.ID(), got.Code, status)
		}
	}
}
