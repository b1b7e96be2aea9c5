// Package actortest runs a host of objects for a test, in memory.
package actortest

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// Class is a class of objects, made by actor.Define.
type Class interface{ Register(h *actor.Host) }

// Host is a host of objects.
type Host struct {
	*actor.Host
	// URL is where it serves: an object is at URL + "/objects/CLASS/NAME/".
	URL string

	server *httptest.Server
	store  *storage.Memory
}

// Start starts a host of the classes, which ends with the test.
func Start(t testing.TB, classes ...Class) *Host {
	t.Helper()
	h := &Host{store: storage.NewMemory()}
	h.start(t, classes)
	t.Cleanup(func() {
		h.stop(t)
		_ = h.store.Close()
	})
	return h
}

// Restart ends the host, as a deployment does, and starts it anew on what it has
// stored.
func (h *Host) Restart(t testing.TB, classes ...Class) {
	t.Helper()
	h.stop(t)
	h.start(t, classes)
}

func (h *Host) start(t testing.TB, classes []Class) {
	t.Helper()
	var err error
	h.Host, err = actor.NewHost(actor.Options{Store: h.store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range classes {
		c.Register(h.Host)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	h.server = httptest.NewServer(h.Handler())
	h.URL = h.server.URL
}

func (h *Host) stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		t.Errorf("ending the host: %v", err)
	}
	h.server.CloseClientConnections()
	h.server.Close()
}
