package cmd

import (
	"fmt"
	"net/http"
)

// phase is where a host is in its life.
type phase int32

const (
	isOpening  phase = iota // its store is not open yet
	isStarting              // its alarms and its listener are not
	isServing
	isDraining
)

// unready says in words why no request should be sent to the host now; empty: it is ready.
func (h *host) unready() string {
	switch phase(h.phase.Load()) {
	case isOpening:
		return "starting: the store is not open yet"
	case isStarting:
		return "starting: the store is open, clients and alarms are not served yet"
	case isDraining:
		return "draining: the host ends, and takes no new requests"
	case isServing:
		if !h.actors.Alarms().Running {
			return "the alarms are not served"
		}
	}
	return ""
}

// healthz says that the process lives, whatever it is about to do: who asks ends it when
// there is no answer.
func (h *host) healthz(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") }

// readyz tells who asks whether to send requests.
func (h *host) readyz(w http.ResponseWriter, _ *http.Request) {
	if why := h.unready(); why != "" {
		say(w, http.StatusServiceUnavailable, why)
		return
	}
	say(w, http.StatusOK, "ok")
}

func say(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, line)
}

// serveAdmin answers on the admin listener from the moment that it is open: that the host
// lives, why it is not ready, and all of the API when that is up.
func (h *host) serveAdmin(early http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api := h.api.Load(); api != nil {
			api.ServeHTTP(w, r)
			return
		}
		early.ServeHTTP(w, r)
	})
}
