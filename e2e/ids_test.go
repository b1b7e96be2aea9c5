package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// An id comes back as the bytes it was, and the server behind never sees it.
func TestRequestIDsAreEchoedByteForByte(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{command: fake()})
	c := h.session()
	for _, id := range []string{
		`1`, `0`, `-7`, `12345678901234567890`, `123456789012345678901234567890`, `1.50`, `1e2`, `1.0`, `-0`,
		`"1"`, `""`, `"héllo"`, `"h\u00e9llo"`, `"a\/b\"c\\"`, `"` + strings.Repeat("long", 200) + `"`,
	} {
		x := c.post(call(id, "id", `{}`))
		if x.status != http.StatusOK {
			t.Errorf("id %.50s: status %d: %s", id, x.status, x.body())
			continue
		}
		frames := x.all()
		last := frames[len(frames)-1].data
		if !strings.Contains(last, `"id":`+id+`,`) {
			t.Errorf("id %.50s is not in the response as it is: %.200s", id, last)
		}
		if seen := parse(t, last).Text(); seen == id && len(id) > 3 {
			t.Errorf("the server was sent the client's id %s", id)
		}
	}
	// Errors, too, and the session's own answers.
	for _, body := range []string{request(`1.50`, "no/such/method", `{}`), request(`1.50`, "ping", `{}`)} {
		frames := c.post(body).all()
		if last := frames[len(frames)-1].data; !strings.Contains(last, `"id":1.50,`) {
			t.Errorf("the id 1.50 is not in the response as it is: %s", last)
		}
	}
}

// Clients exist that send every request with id 1, several at once. Each gets its
// own answer, on its own stream.
func TestRequestsWithTheSameIDGetTheirOwnAnswers(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]hosting{"a child process": {command: fake()}, "the demo": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serve(t, o)
			c := h.session()
			var all sync.WaitGroup
			for i := range 12 {
				all.Go(func() {
					// The later it is sent, the sooner it is answered.
					tool, arguments, want := "wait", fmt.Sprintf(`{"ms":%d,"text":"mine is %d"}`, 400-30*i, i), fmt.Sprintf("mine is %d", i)
					if o.command == nil {
						ms := 400 - 30*i
						tool, arguments, want = "sleep", fmt.Sprintf(`{"ms":%d}`, ms), fmt.Sprintf("slept %d ms", ms)
					}
					x, err := c.try(http.MethodPost, callWithToken("1", tool, arguments, `"same"`), nil)
					if err != nil {
						t.Error(err)
						return
					}
					var frames []frame
					for f := range x.frames {
						frames = append(frames, f)
					}
					got := answers(t, frames)
					if x.err != nil || len(got) != 1 || string(got[0].ID) != "1" || got[0].Text() != want {
						t.Errorf("the stream brought %+v (%v), want %q", got, x.err, want)
					}
				})
			}
			all.Wait()
		})
	}
}

// Progress goes to the request that asked for it, under the token it gave, whatever
// others use.
func TestProgressTokensAreEchoedByteForByte(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{command: fake()})
	c := h.session()
	var all sync.WaitGroup
	for _, token := range []string{`1`, `1`, `"1"`, `12345678901234567890`, `"a\/b"`} {
		all.Go(func() {
			x, err := c.try(http.MethodPost, callWithToken("1", "steps", `{"count":4,"ms":20}`, token), nil)
			if err != nil {
				t.Error(err)
				return
			}
			reports := 0
			for f := range x.frames {
				if strings.Contains(f.data, "notifications/progress") {
					reports++
					if !strings.Contains(f.data, `"progressToken":`+token) || !strings.Contains(f.data, fmt.Sprintf(`"progress":%d`, reports)) {
						t.Errorf("report %d for token %s: %s", reports, token, f.data)
					}
				}
			}
			if reports != 4 {
				t.Errorf("%d reports for token %s, want 4", reports, token)
			}
		})
	}
	all.Wait()
}
