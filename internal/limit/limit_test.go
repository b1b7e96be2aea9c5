package limit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/limit"
)

var now = time.Unix(1_800_000_000, 0)

func TestEachCallerHasItsOwnRate(t *testing.T) {
	r := limit.NewRates(10, time.Second)
	allowed := 0
	for range 100 {
		if ok, _ := r.Allow("greedy", now); ok {
			allowed++
		}
	}
	if allowed != 20 {
		t.Errorf("%d at once, want 20", allowed)
	}
	if ok, wait := r.Allow("greedy", now); ok || wait != 100*time.Millisecond {
		t.Errorf("%v, to wait %v", ok, wait)
	}
	if ok, _ := r.Allow("modest", now); !ok {
		t.Error("another caller is refused")
	}
	if ok, _ := r.Allow("greedy", now.Add(100*time.Millisecond)); !ok {
		t.Error("it is refused after it has waited as it was told to")
	}
	r.Set(0, time.Second)
	if ok, _ := r.Allow("greedy", now); !ok {
		t.Error("it is refused although there is no limit")
	}
}

// Callers that come once each take no more memory than MaxCallers of them, and those
// that go on coming are not forgotten for them.
func TestRatesRememberSoManyCallers(t *testing.T) {
	r := limit.NewRates(1, time.Hour)
	r.Allow("greedy", now)
	r.Allow("greedy", now)
	for i := range 3 * limit.MaxCallers {
		r.Allow(fmt.Sprint(i), now)
		if i%1000 == 0 {
			if ok, _ := r.Allow("greedy", now); ok {
				t.Fatalf("after %d others it may begin anew", i)
			}
		}
	}
	if n := r.Len(); n != limit.MaxCallers {
		t.Errorf("%d are remembered, want %d", n, limit.MaxCallers)
	}
}

func serve(t *testing.T, most int) (*limit.Listener, chan struct{}) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit.NewListener(inner, most)
	hold := make(chan struct{})
	s := &http.Server{ConnState: l.ConnState, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-hold
		}
		fmt.Fprint(w, "here")
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return l, hold
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ask(t *testing.T, c net.Conn, path string) error {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	if path == "/hold" { // the rest of it is not to come yet
		return nil
	}
	_, err = io.ReadAll(r.Body)
	return err
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not come to be", what)
		}
	}
}

// Connections that nobody asks anything on make room, and those that are in use stay.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	l, hold := serve(t, 10)
	defer close(hold)
	busy := dial(t, l)
	if err := ask(t, busy, "/hold"); err != nil {
		t.Fatal(err)
	}
	var idle []net.Conn
	for range 50 {
		idle = append(idle, dial(t, l))
	}
	until(t, "the eviction of the first", func() bool { return l.Connections().Evicted == 41 })
	c := dial(t, l)
	if err := ask(t, c, "/"); err != nil {
		t.Errorf("one that asks something is refused: %v", err)
	}
	if err := ask(t, c, "/"); err != nil {
		t.Errorf("and again: %v", err)
	}
	_ = idle[0].SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := idle[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first of those that ask nothing: %v", err)
	}
	if n := l.Connections(); n.Open > 10 || n.Refused != 0 {
		t.Errorf("%+v", n)
	}
}

// Connections on which nothing was ever asked go before one that a client keeps between
// its requests.
func TestWhatNeverAskedMakesRoomFirst(t *testing.T) {
	const most = 16
	l, _ := serve(t, most)
	kept := dial(t, l)
	if err := ask(t, kept, "/"); err != nil {
		t.Fatal(err)
	}
	for range 3 * most {
		dial(t, l)
	}
	last := dial(t, l)
	if err := ask(t, last, "/"); err != nil { // all before it have been taken in
		t.Fatal(err)
	}
	if err := ask(t, kept, "/"); err != nil {
		t.Errorf("the connection that was kept: %v", err)
	}
	if c := l.Connections(); c.Open > most || c.Evicted < 2*most {
		t.Errorf("%+v", c)
	}
}

func TestWithoutAnIdleOneANewConnectionIsRefused(t *testing.T) {
	l, hold := serve(t, 3)
	var busy []net.Conn
	for range 3 {
		c := dial(t, l)
		if err := ask(t, c, "/hold"); err != nil {
			t.Fatal(err)
		}
		busy = append(busy, c)
	}
	if err := ask(t, dial(t, l), "/"); err == nil {
		t.Error("a fourth is served")
	}
	close(hold)
	for _, c := range busy {
		_ = c.Close()
	}
	until(t, "the end of all", func() bool { return l.Connections().Open == 0 })
	if err := ask(t, dial(t, l), "/"); err != nil {
		t.Errorf("after them: %v", err)
	}
	if n := l.Connections().Refused; n != 1 {
		t.Errorf("%d were refused", n)
	}
}
