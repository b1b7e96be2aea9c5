package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/actor/actortest"
	"github.com/kalpahost/kalpa/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// delivery is what came in at the other end.
type delivery struct{ key, body string }

// receiver takes deliveries, after it has refused some.
func receiver(t *testing.T, refuse int) (url string, got <-chan delivery) {
	all := make(chan delivery, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		all <- delivery{r.Header.Get("Idempotency-Key"), string(b)}
		if refuse > 0 {
			refuse--
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	})
	return s.URL, all
}

func add(t *testing.T, h *actortest.Host, query, body string) (status int, j job) {
	t.Helper()
	res, err := http.Post(h.URL+"/objects/queue/q?"+query, "application/x-www-form-urlencoded", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		if err := json.NewDecoder(res.Body).Decode(&j); err != nil {
			t.Fatal(err)
		}
	}
	return res.StatusCode, j
}

// becomes waits until a job has a state.
func becomes(t *testing.T, h *actortest.Host, id, state string, tried int) {
	t.Helper()
	var b []byte
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		res, err := http.Get(h.URL + "/objects/queue/q/" + id)
		if err != nil {
			t.Fatal(err)
		}
		b, _ = io.ReadAll(res.Body)
		res.Body.Close()
		var j job
		if json.Unmarshal(b, &j) == nil && j.State == state && j.Tried == tried {
			return
		}
	}
	t.Errorf("the job is %s, want it %s after %d attempts", b, state, tried)
}

func TestAJobIsTriedUntilItIsTaken(t *testing.T) {
	to, got := receiver(t, 1)
	h := actortest.Start(t, queues.Serve())
	_, j := add(t, h, "to="+url.QueryEscape(to), "hello")
	for n := range 2 {
		if d := <-got; d != (delivery{j.ID, "hello"}) {
			t.Errorf("attempt %d: %v", n, d)
		}
	}
	becomes(t, h, j.ID, "done", 2)
}

func TestAJobSurvivesARestart(t *testing.T) {
	to, got := receiver(t, 0)
	h := actortest.Start(t, queues.Serve())
	_, j := add(t, h, "after=500ms&to="+url.QueryEscape(to), "later")
	h.Restart(t, queues)
	if d := <-got; d != (delivery{j.ID, "later"}) {
		t.Errorf("got %v", d)
	}
	becomes(t, h, j.ID, "done", 1)
}

func TestWhatIsRefused(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	h := actortest.Start(t, queues.Serve())
	for _, query := range []string{"", "to=nowhere", "to=ftp://a/b", "to=http://a/&after=soon"} {
		if status, _ := add(t, h, query, ""); status != http.StatusBadRequest {
			t.Errorf("%s: %d", query, status)
		}
	}
	for path, want := range map[string]string{"/none": "404 There is no such job.\n", "": "200 []\n"} {
		res, err := http.Get(h.URL + "/objects/queue/q" + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if got := fmt.Sprintf("%d %s", res.StatusCode, b); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// A job that can't be kept, or would not be delivered as it came, is refused, and
// nothing of it is left.
func TestAJobThatCannotBeKeptIsNotScheduled(t *testing.T) {
	to, got := receiver(t, 0)
	h := actortest.Start(t, queues.Serve())
	if status, _ := add(t, h, "to="+url.QueryEscape(to), strings.Repeat("\x01", 1<<20)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("one that is too large: %d", status)
	}
	if status, _ := add(t, h, "to="+url.QueryEscape(to), "\xff"); status != http.StatusUnsupportedMediaType {
		t.Errorf("one that is no text: %d", status)
	}
	for e, err := range h.Store().List(t.Context(), queues.ID("q"), storage.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(e.Key, "run") || strings.HasPrefix(e.Key, "job/") {
			t.Errorf("left: %q", e.Key)
		}
	}
	if at, err := h.Store().Alarm(t.Context(), queues.ID("q")); err != nil || !at.At.IsZero() {
		t.Errorf("its alarm is at %v, %v", at.At, err)
	}
	if status, _ := add(t, h, "to="+url.QueryEscape(to), "the next"); status != http.StatusOK {
		t.Errorf("the next: %d", status)
	}
	if d := <-got; d.body != "the next" {
		t.Errorf("got %+v", d)
	}
}
