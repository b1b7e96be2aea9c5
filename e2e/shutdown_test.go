package e2e

import (
	"slices"
	"testing"
	"time"
)

// drainLimit is the default drain time with what starting, reaping and a busy
// machine add.
const drainLimit = 3*time.Second + 1500*time.Millisecond

// SIGTERM ends a host with open streams within the drain time. Its streams end in
// order, their clients resume them at the next host, and nothing they were sent is
// lost or sent twice.
func TestSigtermParksOpenStreams(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{command: fake()})
	c := h.session()
	get := c.get("")
	c.post(call("1", "later", `{"count":4,"ms":5}`)).result()
	seen := get.events(4)
	owing := c.post(callWithToken(`"owed"`, "steps", `{"count":2000,"ms":50}`, `"t"`))
	got := owing.events(2)

	took, code := h.terminate()
	if took > drainLimit {
		t.Errorf("the host took %v to end, want at most the drain time of 3 s", took)
	}
	if code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	last := get.ending("the GET stream")
	if len(last) == 0 || last[len(last)-1].retry == "" {
		t.Errorf("the GET stream ends with %q, want when to come back", raws(last))
	}
	rest := owing.all()
	h.restart()

	if again, want := raws(c.get(seen[1].id).events(2)), raws(seen[2:]); !slices.Equal(again, want) {
		t.Errorf("the GET stream goes on with %q, want %q", again, want)
	}
	// The call is lost with the server that ran it, and its client is told so: on
	// its stream, or when it comes back to it.
	if len(answers(t, rest)) == 0 {
		id := got[1].id
		for _, f := range rest {
			if f.id != "" {
				id = f.id
			}
		}
		rest = c.get(id).all()
	}
	lost := answers(t, rest)
	if len(lost) != 1 || string(lost[0].ID) != `"owed"` || lost[0].Error == nil || lost[0].Error.Code != -32010 {
		t.Errorf("the stream of the call goes on with %q, want one error -32010", raws(rest))
	}
	if got := c.post(call("2", "echo", `{"text":"next"}`)).result().Text(); got != "next" {
		t.Errorf("the next call: %q", got)
	}
}

// The official client's own stream comes back by itself.
func TestOfficialClientListensAgainAfterSigterm(t *testing.T) {
	t.Parallel()
	needNode(t)
	h := serve(t, hosting{command: fake()})
	c := newTSClient(t)
	s := c.connect(h.url, nil)
	c.listening(0)
	c.tool("later", object{"count": 1, "ms": 5})
	c.await(0, "a notification", isNotification("notifications/message"))

	from := c.mark()
	if took, _ := h.terminate(); took > drainLimit {
		t.Errorf("the host took %v to end, want at most the drain time of 3 s", took)
	}
	h.restart()
	c.listening(from)
	from = c.mark()
	c.tool("later", object{"count": 2, "ms": 5, "method": "notifications/tools/list_changed"})
	c.await(from, "a notification of the restarted host", isNotification("notifications/tools/list_changed"))
	if n := len(c.saw(isNotification("notifications/message"))); n != 1 {
		t.Errorf("the notification from before has come %d times", n)
	}
	c.unshaken(s.Session)
}
