package main

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/actor/actortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func request(t *testing.T, method, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(b))
}

func TestCounting(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	h := actortest.Start(t, counters.Serve())
	apples := h.URL + "/objects/counter/apples"
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { request(t, http.MethodPost, apples) })
	}
	all.Wait()
	for _, c := range []struct {
		method, url string
		status      int
		want        string
	}{
		{http.MethodPost, apples + "?by=22", 200, "42"},
		{http.MethodPost, h.URL + "/objects/counter/pears?by=-2", 200, "-2"},
		{http.MethodGet, apples, 200, "42"},
		{http.MethodGet, h.URL + "/objects/counter/total", 200, "40"},
		{http.MethodPost, apples + "?by=one", 400, "by is not a number."},
		{http.MethodPut, apples, 405, "GET reads, POST counts."},
	} {
		if status, got := request(t, c.method, c.url); status != c.status || got != c.want {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.url, status, got, c.status, c.want)
		}
	}

	h.Restart(t, counters)
	if n, err := add.Do(t.Context(), h.Stub(counters.ID("apples")), 1); n != 43 || err != nil {
		t.Errorf("through a stub, after a restart: %d, %v", n, err)
	}
}
