package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// events are the next n messages on a stream.
func (x *exchange) events(n int) []frame {
	x.t.Helper()
	var all []frame
	for range n {
		f, ok := x.next()
		if !ok {
			x.t.Fatalf("the stream ends after %d of %d events: %v", len(all), n, x.err)
		}
		all = append(all, f)
	}
	return all
}

// ending checks that the stream ends as a client wants it to, and returns what was
// still on it.
func (x *exchange) ending(what string) []frame {
	x.t.Helper()
	frames := x.all()
	for _, f := range frames {
		if f.data != "" {
			x.t.Errorf("%s: still on the stream: %s", what, f.raw)
		}
	}
	return frames
}

func raws(frames []frame) (all []string) {
	for _, f := range frames {
		all = append(all, f.raw)
	}
	return all
}

// What belongs to no request arrives on the GET stream, whatever it is.
func TestGetStreamCarriesWhatBelongsToNoRequest(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{command: fake()})
	c := h.session()
	x := c.get("")
	for _, method := range []string{
		"notifications/message", "notifications/resources/updated", "notifications/tools/list_changed",
		"notifications/resources/list_changed", "notifications/prompts/list_changed",
	} {
		c.post(call("1", "later", fmt.Sprintf(`{"count":1,"ms":30,"method":%q}`, method))).result()
		if got := parse(t, x.events(1)[0].data).Method; got != method {
			t.Errorf("the GET stream brings %s, want %s", got, method)
		}
	}
	// While a call is under way, what may belong to it takes its stream, and what
	// can't does not.
	under := c.post(call(`"under way"`, "wait", `{"ms":1500}`))
	c.post(call("1", "later", `{"count":1,"ms":30,"method":"notifications/tools/list_changed"}`)).result()
	if got := parse(t, x.events(1)[0].data).Method; got != "notifications/tools/list_changed" {
		t.Errorf("the GET stream brings %s", got)
	}
	c.post(call("2", "later", `{"count":1,"ms":30,"method":"notifications/message"}`)).result()
	if got := parse(t, under.events(1)[0].data).Method; got != "notifications/message" {
		t.Errorf("the stream of the call brings %s", got)
	}
	under.result()
	// It holds nobody up: a call behind it runs.
	if got := c.post(call("2", "echo", `{"text":"hi"}`)).result().Text(); got != "hi" {
		t.Errorf("echo: %q", got)
	}
}

// The newest GET is the session's stream; the one before ends in order.
func TestNewGetStreamSupersedesTheOld(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{command: fake()})
	c := h.session()
	first := c.get("")
	c.post(call("1", "later", `{"count":1,"ms":1}`)).result()
	first.events(1)
	second := c.get("")
	first.ending("the first GET")
	c.post(call("2", "later", `{"count":2,"ms":10}`)).result()
	second.events(2)
	third := c.get("")
	second.ending("the second GET")
	if f, ok := third.within(200 * time.Millisecond); ok {
		t.Errorf("the third GET brings what the second had: %s", f.raw)
	}
}

// A client that comes back gets what it has missed of that stream, byte for byte and
// nothing else, and then what is new (I11).
func TestReplayBringsExactlyTheMissingSuffix(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{command: fake()})
	replays := func(t *testing.T, c *client, restart func()) {
		t.Helper()
		x := c.get("")
		c.post(call("1", "later", `{"count":5,"ms":5}`)).result()
		seen := x.events(5)
		ids := map[string]bool{}
		for _, f := range seen {
			if f.id == "" || ids[f.id] {
				t.Errorf("event id %q is empty or used before", f.id)
			}
			ids[f.id] = true
		}
		x.close()
		restart()
		for after := range seen {
			y := c.get(seen[after].id)
			if got, want := raws(y.events(len(seen)-after-1)), raws(seen[after+1:]); !slices.Equal(got, want) {
				t.Errorf("after event %d comes\n%q\nwant\n%q", after+1, got, want)
			}
			if f, ok := y.within(50 * time.Millisecond); ok {
				t.Errorf("more comes than was missing: %s", f.raw)
			}
			y.close()
		}
		// The stream lives on where it was.
		y := c.get(seen[4].id)
		c.post(call("2", "later", `{"count":1,"ms":5}`)).result()
		if f := y.events(1)[0]; ids[f.id] || f.id == "" {
			t.Errorf("a new event has the id %q, which is not new", f.id)
		}
		y.close()
	}
	t.Run("of a GET", func(t *testing.T) { replays(t, h.session(), func() {}) })
	t.Run("of a GET, after kill -9", func(t *testing.T) { replays(t, h.session(), h.crash) })

	of := func(t *testing.T, c *client, restart func()) {
		t.Helper()
		seen := c.post(callWithToken("7", "steps", `{"count":4,"ms":5}`, `"t"`)).all()
		if len(answers(t, seen)) != 1 {
			t.Fatalf("no answer in %q", raws(seen))
		}
		restart()
		c.get("") // another stream, which must not matter
		for after, f := range seen {
			if f.id == "" {
				continue
			}
			y := c.get(f.id)
			if got, want := raws(messages(y.all())), raws(messages(seen[after+1:])); !slices.Equal(got, want) {
				t.Errorf("after event %q comes\n%q\nwant\n%q", f.id, got, want)
			}
		}
	}
	t.Run("of a POST", func(t *testing.T) { of(t, h.session(), func() {}) })
	t.Run("of a POST, after kill -9", func(t *testing.T) { of(t, h.session(), h.crash) })
}

// A client that is cut off twice without anything in between still knows where it
// was: the resumed stream begins with an id, too.
func TestResumedStreamGivesAnIDToResumeFrom(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{command: fake()})
	c := h.session()
	x := c.get("")
	id := (<-x.frames).id
	for _, cut := range []func(){func() {}, h.crash, func() {}, h.crash} {
		x.close()
		cut()
		x = c.get(id)
		select {
		case f := <-x.frames:
			if !f.primes() {
				t.Fatalf("the resumed stream begins with %q, want an event id", f.raw)
			}
			id = f.id
		case <-time.After(5 * time.Second):
			t.Fatal("the resumed stream gives no event id")
		}
	}
	c.post(call("1", "later", `{"count":2,"ms":5}`)).result()
	seen := x.events(2)
	x.close()
	if got := raws(c.get(id).events(2)); !slices.Equal(got, raws(seen)) {
		t.Errorf("after the last id comes %q, want %q", got, raws(seen))
	}
}

// messages leaves out what is no message.
func messages(frames []frame) []frame {
	return slices.DeleteFunc(slices.Clone(frames), func(f frame) bool { return f.data == "" })
}

// A call whose client is cut off goes on. Its answer waits, once.
func TestAnswerWaitsForAClientThatWasCutOff(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{command: fake()})
	c := h.session()
	x := c.post(callWithToken("7", "steps", `{"count":6,"ms":50}`, `"t"`))
	first, ok := <-x.frames
	if !ok || !first.primes() {
		t.Fatalf("the stream begins with %q, want an event id to resume from", first.raw)
	}
	second := x.events(2)[1]
	x.close()
	rest := c.get(second.id).all()
	got := answers(t, rest)
	if len(got) != 1 || string(got[0].ID) != "7" || got[0].Text() != "done" {
		t.Fatalf("the resumed stream brings %q", raws(rest))
	}
	if n := len(messages(rest)); n != 5 {
		t.Errorf("the resumed stream brings %d messages, want 4 reports and the result: %q", n, raws(rest))
	}

	// Cut before the first byte was read, and everything missed.
	y := c.post(callWithToken("8", "steps", `{"count":2,"ms":50}`, `"t"`))
	prime := <-y.frames
	y.close()
	time.Sleep(300 * time.Millisecond)
	all := c.get(prime.id).all()
	if got := answers(t, all); len(got) != 1 || string(got[0].ID) != "8" || len(messages(all)) != 3 {
		t.Errorf("the resumed stream brings %q", raws(all))
	}
}

// A cancelled call releases its stream at once, without an answer.
func TestCancelledCallEndsItsStreamWithoutAnswer(t *testing.T) {
	t.Parallel()
	log := newJournal(t)
	h := serve(t, hosting{command: fake("-journal", log.path)})
	c := h.session()
	x := c.post(call(`"slow"`, "wait", `{"ms":60000,"text":"too late"}`))
	for f := range x.frames {
		if f.primes() {
			break
		}
	}
	eventually(t, patience, "the server has the call", func() bool { return len(log.entries("tools/call")) == 1 })
	c.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow","reason":"enough"}}`)
	x.ending("the cancelled call")
	eventually(t, patience, "the server is told", func() bool { return len(log.entries("notifications/cancelled")) == 1 })
	sent, told := log.entries("tools/call")[0], log.entries("notifications/cancelled")[0]
	if !strings.Contains(string(told.Params), fmt.Sprintf(`"requestId":%s`, sent.ID)) || !strings.Contains(string(told.Params), "enough") {
		t.Errorf("the server was told %s of the call %s", told.Params, sent.ID)
	}
	if got := c.post(call("2", "echo", `{"text":"hi"}`)).result().Text(); got != "hi" {
		t.Errorf("the next call: %q", got)
	}
}

// DELETE ends a session at once, with its streams and its server.
func TestDeleteEndsTheSession(t *testing.T) {
	t.Parallel()
	log := newJournal(t)
	h := serve(t, hosting{command: fake("-journal", log.path)})
	c := h.session()
	x := c.get("")
	pid := log.entries("start")[0].PID
	if d := c.do(http.MethodDelete, "", nil); d.status/100 != 2 {
		t.Fatalf("DELETE: status %d: %s", d.status, d.body())
	}
	if y := c.post(call("1", "echo", `{}`)); y.status != http.StatusNotFound {
		t.Errorf("a call after DELETE: status %d: %s", y.status, y.body())
	}
	x.ending("the GET stream of the session")
	eventually(t, patience, "the session's server has ended", func() bool { return !alive(pid) })
}
