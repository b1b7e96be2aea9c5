package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// withAdmin are the flags of a host whose sessions can be reset on purpose.
var withAdmin = []string{"--admin", "127.0.0.1:0"}

// strike is a reset at a point of an execution, as the admin API takes it.
type strike struct {
	Point   string `json:"point"`
	Session string `json:"session,omitempty"`
	Method  string `json:"method,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Scope   string `json:"scope,omitempty"`
	Cause   string `json:"cause,omitempty"`
	Hold    string `json:"hold,omitempty"`
	Skip    int    `json:"skip,omitempty"`
}

// ask sends a request to the admin listener of a host, and decodes the answer.
func (h *host) ask(ctx context.Context, method, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(h.metrics, "/metrics")+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, &b)
	}
	return json.Unmarshal(b.Bytes(), answer)
}

// arm arms a strike and returns its number.
func (h *host) arm(t testing.TB, s strike) int {
	t.Helper()
	var armed struct{ Number int }
	if err := h.ask(t.Context(), http.MethodPost, "/v1/chaos", s, &armed); err != nil {
		t.Fatal(err)
	}
	return armed.Number
}

// struck waits until a strike has found its execution. It returns a time shortly
// before that: the last at which it was still to come.
func (h *host) struck(t testing.TB, number int) time.Time {
	t.Helper()
	before := time.Now()
	for deadline := before.Add(patience); ; time.Sleep(5 * time.Millisecond) {
		asked := time.Now()
		var list struct{ Strikes []struct{ Number int } }
		if err := h.ask(t.Context(), http.MethodGet, "/v1/chaos", nil, &list); err != nil {
			select {
			case <-h.ended: // which is what it was to do
				return before
			case <-time.After(time.Second):
				t.Fatal(err)
			}
		}
		waits := false
		for _, s := range list.Strikes {
			waits = waits || s.Number == number
		}
		if !waits {
			return before
		}
		before = asked
		if asked.After(deadline) {
			t.Fatalf("the strike has not come to its point in %v", patience)
		}
	}
}

// reset resets a session now.
func (h *host) reset(t testing.TB, session, cause string) {
	t.Helper()
	var was struct{ Epoch uint64 }
	if err := h.ask(t.Context(), http.MethodPost, "/v1/reset", map[string]string{"session": session, "cause": cause}, &was); err != nil {
		t.Fatal(err)
	}
}

// pending is a POST whose answer may not have begun.
type pending struct {
	cancel context.CancelFunc
	begun  chan struct{} // closed when x and err are set
	x      *exchange
	err    error
}

// begin posts without waiting for the beginning of the answer.
func (c *client) begin(body string) *pending {
	ctx, cancel := context.WithCancel(c.t.Context())
	p := &pending{cancel: cancel, begun: make(chan struct{})}
	go func() { // ends with the beginning of the answer, or with cancel
		defer close(p.begun)
		p.x, p.err = c.tryIn(ctx, http.MethodPost, body, nil)
	}()
	c.t.Cleanup(p.leave)
	return p
}

// opened is the exchange, once its answer has begun.
func (p *pending) opened(t testing.TB) *exchange {
	t.Helper()
	<-p.begun
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.x
}

// leave cuts the connection.
func (p *pending) leave() {
	p.cancel()
	<-p.begun
}

// seen are the frames that came before the connection was cut.
func (p *pending) seen() (all []frame) {
	if p.leave(); p.x != nil {
		for f := range p.x.frames {
			all = append(all, f)
		}
	}
	return all
}
