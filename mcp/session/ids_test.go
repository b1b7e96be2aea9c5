package session

import (
	"strings"
	"testing"
	"time"
)

// TestIDsOrderAsTheirTimesDo: whatever the rest of them is.
func TestIDsOrderAsTheirTimesDo(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	last := ""
	for i, later := range []time.Duration{0, 64 * time.Millisecond, time.Second, time.Hour, 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		text := strings.Repeat(string(rune('Z'-i)), 26)
		id := IDFrom(text, at.Add(later))
		if id <= last {
			t.Errorf("%s, minted %v later, comes before %s", id, later, last)
		}
		if len(id) != 33 || !strings.HasSuffix(id, strings.ToLower(text)) {
			t.Errorf("%s is not 7 characters and %s", id, text)
		}
		last = id
	}
	if a, b := NewID(at), NewID(at); a == b || a[:idTime] != b[:idTime] {
		t.Errorf("%s and %s were minted at one time", a, b)
	}
}
