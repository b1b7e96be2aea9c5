package front

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// What is written for a client that has left was not delivered, also where the
// system still takes it: the session must keep it for the client's return (I11).
func TestNothingIsConfirmedForAClientThatHasLeft(t *testing.T) {
	var mu sync.Mutex
	var got []string
	sent, left := make(chan struct{}), make(chan struct{})
	s := serve(t, Options{At: func(actor.Point, string, wire.Message) {
		close(sent)
		<-left
	}}, func(_ string, e session.Event) error {
		mu.Lock()
		defer mu.Unlock()
		switch e.(type) {
		case *session.Flushed:
			got = append(got, "flushed")
		case *session.Gone:
			got = append(got, "gone")
		default:
			sock := socketOf(e)
			opened(sock)
			pushed(sock, "pa.1.1", "7", `{"jsonrpc":"2.0","id":7,"result":{}}`)
			sock.End(session.End{Kind: session.Final})
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(strings.Replace(ping, `"id":1`, `"id":7`, 1)))
	r.Header.Set(headerSession, "abc")
	r.Header.Set("Content-Type", typeJSON)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if w, err := s.client.Do(r); err == nil {
			w.Body.Close()
		}
	}()
	<-sent
	cancel()
	<-over
	time.Sleep(50 * time.Millisecond) // until the server has seen the end of the connection
	close(left)
	eventually(t, "gone", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if want := "gone"; strings.Join(got, " ") != want {
		t.Errorf("the session was told %q, want %q", got, want)
	}
}
