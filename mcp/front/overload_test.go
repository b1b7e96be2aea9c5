package front

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
)

// A session for which too much waits is not asked again: its client is told that
// nothing was executed, why, and when to come back.
func TestAnOverloadedSessionIsRefusedAtOnce(t *testing.T) {
	for _, cause := range []actor.Cause{actor.Overload, actor.OverloadedBytes, actor.OverloadedAge} {
		sent := 0
		s := serve(t, Options{}, func(_ string, e session.Event) error {
			if _, gone := e.(*session.Gone); !gone {
				sent++
			}
			return &actor.Error{Op: "send", Cause: cause}
		})
		r := s.call(t.Context(), http.MethodPost, ping)
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || sent != 1 ||
			!strings.Contains(string(body), cause.Sentence()) || !strings.Contains(string(body), "It has not been executed") {
			t.Errorf("%v: status %d, Retry-After %q, after %d attempts: %s %v", cause, r.StatusCode, r.Header.Get("Retry-After"), sent, body, err)
		}
	}
}
