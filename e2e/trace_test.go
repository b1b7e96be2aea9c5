package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// span is a line of a trace file: what these tests read of it.
type span struct {
	Name       string    `json:"name"`
	ID         string    `json:"span_id"`
	Start      time.Time `json:"start"`
	Attributes struct {
		Session    string  `json:"mcp.session.id"`
		Epoch      uint64  `json:"kalpa.epoch"`
		Generation uint64  `json:"kalpa.generation"`
		Residents  *int64  `json:"kalpa.residents"`
		Rebuilt    bool    `json:"kalpa.rebuilt"`
		Reason     string  `json:"kalpa.reason"`
		IdleMS     float64 `json:"kalpa.idle_ms"`
	} `json:"attributes"`
	Links []struct {
		ID string `json:"span_id"`
	} `json:"links"`
}

// spans are those of one name and session in a trace file, in the order in which
// they ended.
func spans(t testing.TB, file, name, session string) (all []span) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var s span
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("trace file: %v: %.300q", err, line)
		}
		if s.Name == name && s.Attributes.Session == session {
			all = append(all, s)
		}
	}
	return all
}

// metric is the sum of all series of a name at /metrics, of which there must be
// one at least.
func (h *host) metric(name string) float64 {
	h.t.Helper()
	response, err := http.Get(h.metrics)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	sum, found := 0.0, false
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		series, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || !slices.Contains([]byte{'{', ' '}, series[0]) {
			continue
		}
		value, err := strconv.ParseFloat(series[strings.LastIndexByte(series, ' ')+1:], 64)
		if err != nil {
			h.t.Fatalf("%s: %v", lines.Text(), err)
		}
		sum, found = sum+value, true
	}
	_, _ = io.Copy(io.Discard, response.Body)
	if !found {
		h.t.Fatalf("%s has no series at %s", name, h.metrics)
	}
	return sum
}

// residents is the gauge of runtimes that are resident, over all isolates.
func (h *host) residents() float64 { h.t.Helper(); return h.metric("kalpa_mcp_resident_runtimes") }
