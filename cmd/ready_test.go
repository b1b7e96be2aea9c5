package cmd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

func TestAHostIsReadyWhenItsStoreIsOpenItsAlarmsRunAndItDoesNotEnd(t *testing.T) {
	store := storage.NewMemory()
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	actors, err := actor.NewHost(actor.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{}
	says := func(when string, ready int, begins string) {
		t.Helper()
		for _, c := range []struct {
			serve  http.HandlerFunc
			status int
			begins string
		}{{h.healthz, 200, "ok"}, {h.readyz, ready, begins}} {
			w := httptest.NewRecorder()
			c.serve(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if w.Code != c.status || !strings.HasPrefix(w.Body.String(), c.begins) {
				t.Errorf("%s: %d %s, want %d %s...", when, w.Code, w.Body, c.status, c.begins)
			}
		}
	}
	says("without a store", 503, "starting: the store is not open yet")
	h.phase.Store(int32(isStarting))
	says("with a store", 503, "starting: the store is open")
	h.actors = actors
	h.phase.Store(int32(isServing))
	says("without alarms", 503, "the alarms are not served")
	if err := actors.Start(); err != nil {
		t.Fatal(err)
	}
	says("up", 200, "ok")
	if err := actors.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	says("when the alarms have stopped", 503, "the alarms are not served")
	h.phase.Store(int32(isDraining))
	says("ending", 503, "draining: ")
}
