package session_test

import (
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// Rows that do not decode are left alone, each by itself: the session goes on
// without what they held (I13).
func TestRowsThatDoNotDecodeDoNotEndTheSession(t *testing.T) {
	for key, value := range map[string]string{
		"act":            `yesterday`,
		"hs/initialize":  `{"protocolVersion":`,
		"hs/initialized": `{"jsonrpc":"1.0"}`,
		"hs/level":       `{`,
		"hs/result":      `not at all`,
		"hs/sub/file":    ``,
		"h/zz":           `{"jsonrpc":"2.0","method":"notifications/x"}`,
		"h/00000001":     `{"jsonrpc":"2.0"}`,
		"h/00000002":     `]`,
		"a/x":            `{"at":7}`,
		"q/px":           `{}`,
		"q/px/000":       `{"id":`,
		"s/px":           `{"flushed":"nowhere"}`,
		"s/py":           ``,
		"e/px/zz":        `{}`,
		"nobody's":       `{}`,
	} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t, nil)
			c := w.open1()
			id := storage.ID{Class: session.Class, Name: c.id}
			epoch, err := storage.Claim(t.Context(), w.store, id)
			if err == nil {
				err = storage.Commit(t.Context(), w.store, &storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: key, Value: []byte(value)}}})
			}
			if err != nil {
				t.Fatal(err)
			}
			w.reboot()
			for _, want := range []string{`"n":1`, `"n":2`} {
				if got := c.post(call(`7`, "count")).wait().text(); !strings.Contains(got, want) {
					t.Errorf("answered %s, want %s", got, want)
				}
			}
		})
	}
}
