package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// attack does harm until its context ends. It calls ready once it is under way.
type attack struct {
	name string
	run  func(ctx context.Context, t *target, seen *tally, ready func())
}

var attacks = []attack{
	{"none", func(ctx context.Context, _ *target, _ *tally, ready func()) { ready(); <-ctx.Done() }},
	{"tokens that are guessed", flood(500, func(ctx context.Context, t *target, n int) (int, error) {
		status, _, _, err := t.post(ctx, increment, "Authorization", fmt.Sprintf("Bearer kalpa_guess%d", n))
		return status, err
	})},
	{"requests without a pause", flood(2000, func(ctx context.Context, t *target, _ int) (int, error) {
		status, _, _, err := t.post(ctx, increment, "Authorization", "Bearer "+t.tokens["evil"], "Mcp-Session-Id", "another")
		return status, err
	})},
	{"sessions in a loop", flood(500, func(ctx context.Context, t *target, _ int) (int, error) {
		status, _, _, err := t.post(ctx, initialize, "Authorization", "Bearer "+t.tokens["evil"])
		return status, err
	})},
	{"forged hosts", flood(500, func(ctx context.Context, t *target, _ int) (int, error) {
		status, _, _, err := t.post(ctx, increment, "Host", "evil.example")
		return status, err
	})},
	{"lines for the log", flood(200, func(ctx context.Context, t *target, _ int) (int, error) {
		body := `{"jsonrpc":"2.0","id":4,"method":"` + strings.Repeat(`\ntime=now level=ERROR msg=forged`, 100) + `"}`
		status, _, _, err := t.post(ctx, body, "Authorization", "Bearer "+t.tokens["evil"], "Mcp-Session-Id", "another")
		return status, err
	})},
	{"bodies of 1 GB, announced", flood(50, func(ctx context.Context, t *target, _ int) (int, error) {
		return t.raw(ctx, "Content-Length: 1073741824\r\n\r\n{", nil)
	})},
	{"bodies of 1 GB, in chunks", flood(2, func(ctx context.Context, t *target, _ int) (int, error) {
		chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", 1<<20, bytes.Repeat([]byte(" "), 1<<20))
		return t.raw(ctx, "Transfer-Encoding: chunked\r\n\r\n", chunk)
	})},
	{"10,000 idle connections", hold(10_000, "")},
	{"slow headers (slow loris)", hold(1000, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")},
	{"slow bodies", hold(1000, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer EVIL\r\nMcp-Session-Id: another\r\nContent-Length: 1000\r\n\r\n{")},
}

// flood makes so many requests a second, at most sixteen at once.
func flood(rate int, one func(ctx context.Context, t *target, n int) (int, error)) func(context.Context, *target, *tally, func()) {
	return func(ctx context.Context, t *target, seen *tally, ready func()) {
		ready()
		var all sync.WaitGroup
		defer all.Wait()
		room := make(chan struct{}, 16)
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			all.Go(func() {
				defer func() { <-room }()
				status, err := one(ctx, t, n)
				if ctx.Err() == nil {
					seen.add(status, err)
				}
			})
		}
	}
}

// hold opens so many connections, says a little on each and waits; one that is closed is
// opened anew.
func hold(many int, says string) func(context.Context, *target, *tally, func()) {
	return func(ctx context.Context, t *target, seen *tally, ready func()) {
		says := strings.ReplaceAll(says, "EVIL", t.tokens["evil"])
		var all sync.WaitGroup
		defer all.Wait()
		room := make(chan struct{}, many)
		dialer := net.Dialer{Timeout: 10 * time.Second}
		for n := 0; ; n++ {
			if n == many {
				ready()
			}
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			if n >= many { // what comes anew comes slowly
				time.Sleep(time.Millisecond)
			}
			c, err := dialer.DialContext(ctx, "tcp", t.host)
			if err != nil {
				seen.add(0, err)
				<-room
				continue
			}
			all.Go(func() {
				defer func() { <-room }()
				defer context.AfterFunc(ctx, func() { _ = c.Close() })()
				defer func() { _ = c.Close() }()
				_, _ = c.Write([]byte(says))
				w, err := http.ReadResponse(bufio.NewReader(c), nil)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					seen.add(0, nil)
				default:
					_ = w.Body.Close()
					seen.add(w.StatusCode, nil)
				}
			})
		}
	}
}

// raw sends a request with a body of its own making.
func (t *target) raw(ctx context.Context, head string, chunk []byte) (int, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", t.host)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: another\r\nAuthorization: Bearer %s\r\n%s", t.tokens["evil"], head); err != nil {
		return 0, err
	}
	if chunk != nil {
		go func() { // ends with the connection
			for range 1024 {
				if _, err := c.Write(chunk); err != nil {
					return
				}
			}
		}()
	}
	w, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = w.Body.Close() }()
	return w.StatusCode, nil
}

// tally counts what attackers were answered.
type tally struct {
	mu       sync.Mutex
	statuses map[int]int
	failed   int
}

func (t *tally) add(status int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failed++
		return
	}
	if t.statuses == nil {
		t.statuses = map[int]int{}
	}
	t.statuses[status]++
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, status := range slices.Sorted(maps.Keys(t.statuses)) {
		what := fmt.Sprint(status)
		if status == 0 {
			what = "closed"
		}
		all = append(all, fmt.Sprintf("%s: %d", what, t.statuses[status]))
	}
	if t.failed > 0 {
		all = append(all, fmt.Sprintf("failed: %d", t.failed))
	}
	return strings.Join(all, ", ")
}
