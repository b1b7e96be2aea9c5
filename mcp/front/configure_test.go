package front

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
)

// What is changed while a front serves holds for what comes from then on; what is wrong
// changes nothing.
func TestAFrontIsConfiguredWhileItServes(t *testing.T) {
	s := serve(t, Options{MaxBody: 1 << 10, MaxStreams: 1}, accepting)
	big := padded(2 << 10)
	if w := s.post(big); w.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("before: %d", w.StatusCode)
	}
	if w := s.get(); w.StatusCode != http.StatusOK {
		t.Errorf("the first stream: %d", w.StatusCode)
	}
	if err := s.Configure(Limits{MaxBody: -1}); err == nil {
		t.Error("a limit that is none is taken")
	}
	if w := s.post(big); w.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("after what was wrong: %d", w.StatusCode)
	}
	if err := s.Configure(Limits{MaxBody: 4 << 10, MaxStreams: 2, AllowedOrigins: []string{"https://app.example"}}); err != nil {
		t.Fatal(err)
	}
	if w := s.post(big); w.StatusCode != http.StatusAccepted {
		t.Errorf("after: %d", w.StatusCode)
	}
	if w := s.get(); w.StatusCode != http.StatusOK {
		t.Errorf("the second stream: %d", w.StatusCode)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodOptions, s.url, nil)
	r.Header.Set("Origin", "https://app.example")
	w, err := s.client.Do(r)
	if err != nil || w.StatusCode != http.StatusNoContent {
		t.Errorf("the origin that is allowed now: %v, %v", w, err)
	}
}

// A session that is one too many is refused as such: not as busy, nor as unknown.
func TestASessionTooManyIsRefused(t *testing.T) {
	s := serve(t, Options{}, func(string, session.Event) error {
		return fmt.Errorf("%w: you have 7", session.ErrTooMany)
	})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`))
	r.Header.Set("Content-Type", typeJSON)
	w, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(w.Body)
	if w.StatusCode != http.StatusTooManyRequests || w.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "you have 7") {
		t.Errorf("%d %v %s", w.StatusCode, w.Header, body)
	}
}

// A brief answer that takes long becomes a stream, for the comments that keep it up.
func TestABriefAnswerThatTakesLongIsAStream(t *testing.T) {
	s := serve(t, Options{JSON: true, KeepAlive: 20 * time.Millisecond}, accepting)
	said, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case <-said:
				return
			case <-time.After(time.Millisecond):
				s.clock.Advance(time.Millisecond)
			}
		}
	}()
	w := s.post(ping)
	close(said)
	<-passed
	if w.StatusCode != http.StatusOK || w.Header.Get("Content-Type") != typeStream {
		t.Fatalf("%d %v", w.StatusCode, w.Header)
	}
	got := make([]byte, len(": keepalive"))
	if _, err := io.ReadFull(w.Body, got); err != nil || string(got) != ": keepalive" {
		t.Errorf("%q %v", got, err)
	}
}
