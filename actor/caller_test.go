package actor_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kalpahost/kalpa/actor"
)

// Whom a request is made for goes along with it, into the object and with each call that
// is made on the way, and no further; what its client sends does not matter.
func TestTheCallerGoesAlong(t *testing.T) {
	l := newLab(t, actor.Options{})
	background := make(chan string, 1)
	var direct, nested string
	inner := register(func(ctx context.Context, s *actor.State) error {
		nested = actor.Caller(ctx)
		return s.WaitUntil(func(ctx context.Context) error {
			background <- actor.Caller(ctx)
			return nil
		})
	})
	outer := register(func(ctx context.Context, _ *actor.State) error {
		direct = actor.Caller(ctx)
		_, err := runCode.Do(ctx, l.Stub(thingID("b")), inner)
		return err
	})
	for _, who := range []string{"ada", "", "bob"} { // one after the other, of the same incarnations
		if _, err := runCode.Do(actor.WithCaller(t.Context(), who), l.Stub(thingID("a")), outer); err != nil {
			t.Fatal(err)
		}
		if got := <-background; direct != who || nested != who || got != "" {
			t.Errorf("for %q: the object sees %q, the one that it calls %q, its background work %q", who, direct, nested, got)
		}
	}
	if got := actor.Caller(actor.WithCaller(actor.WithCaller(t.Context(), "ada"), "")); got != "" {
		t.Errorf("taken back: %q", got)
	}
}

func TestTheCallerOfARequestIsWhoTheHostSays(t *testing.T) {
	w := newWeb(t, actor.Options{}, pages{serve: func(_ *actor.State, w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(actor.Caller(r.Context())))
	}})
	handler := w.Handler()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(actor.WithCaller(r.Context(), "ada")))
	}))
	t.Cleanup(front.Close)
	for url, want := range map[string]string{front.URL + "/objects/page/a/": "ada", w.address("a/"): ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, forged := range []string{"Caller", "Kalpa-Caller", "X-Forwarded-User", "X-Remote-User"} {
			r.Header.Set(forged, "root")
		}
		res, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, _ := res.Body.Read(b)
		if err := res.Body.Close(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := string(b[:n]); got != want {
			t.Errorf("%s: the object is told of %q, want %q", url, got, want)
		}
	}
}
