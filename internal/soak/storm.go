package soak

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// Machine is a host process as a storm treats it.
type Machine interface {
	// URLs are the endpoints of its servers: the first one or two have the tools of the
	// demo's that a storm calls; only the last may lack incr.
	URLs() []string
	Admin() *admin.Client
	Kill()
	Restart(ctx context.Context) error
	Ended() <-chan struct{}
	Pause() error
	Continue() error
}

// Storm is what a host and its clients go through.
type Storm struct {
	Seed            uint64
	Sessions, Calls int // calls of each session
	Kills           int // kill -9
	Pauses          int // SIGSTOP, and SIGCONT after a while
	Fulls           int // the disk is full for a while
	// Fill makes the disk full, or not any more. Needed with Fulls.
	Fill func(full bool) error
	// Isolates is how many the host has.
	Isolates int
	// Name begins the ids of the requests.
	Name string
}

// Outcome is what a storm has come to.
type Outcome struct {
	Judgement
	Clients []*Resumer
	Calls   int
	Resets  int
	Kills   []time.Time // also of a host that the full disk has ended
	Pauses  int
	Fulls   int
	Ended   int // hosts that a full disk has ended
	Took    time.Duration

	room time.Time // since when the disk is not full any more
}

// every is how often an isolate is reset.
const every = 50 * time.Millisecond

// Run lets the storm pass over a host that runs, and waits until what is owed has been
// told. It runs still, unless ctx has ended; Judge comes when it does not any more. An
// error is of the storm; what the host has done wrong is in the outcome.
func (s *Storm) Run(ctx context.Context, h Machine) (*Outcome, error) {
	out := &Outcome{Calls: s.Sessions * s.Calls}
	urls := h.URLs()
	for n := range s.Sessions {
		version := "2025-11-25"
		if n%4 == 3 {
			version = "2025-06-18" // whose clients hold no event id before the first event
		}
		r := NewResumer(ctx, NewClient(urls[min(n%5/4, len(urls)-1)]), fmt.Sprintf("%ss%d", s.Name, n))
		out.Clients = append(out.Clients, r)
		if err := r.Open(version); err != nil {
			return out, err
		}
	}
	var begun atomic.Int64 // calls
	var calling sync.WaitGroup
	began := time.Now()
	for n, c := range out.Clients {
		calling.Go(func() { s.call(ctx, c, rand.New(rand.NewPCG(s.Seed, uint64(n)+1)), &begun) }) //nolint:gosec // it has to be repeatable
	}
	err := s.weather(ctx, h, out, &begun)
	calling.Wait()
	out.Took = time.Since(began)
	if err != nil {
		return out, err
	}
	// What nobody has come back for is on the GET after ten seconds.
	calm := time.Now()
	for owed := 1; owed > 0 && time.Since(calm) < 30*time.Second && ctx.Err() == nil; time.Sleep(pause) {
		owed = 0
		for _, c := range out.Clients {
			owed += c.owed()
		}
	}
	if rest := time.Until(calm.Add(11 * time.Second)); rest > 0 {
		time.Sleep(rest)
	}
	for _, c := range out.Clients {
		if s.counts(c) {
			calling.Go(func() { c.await(c.Call("incr", `{}`, "", false)) }) // where the counter is
		}
	}
	calling.Wait()
	return out, ctx.Err()
}

// Judge judges all clients. The host has ended, and left its rows in a folder.
func (s *Storm) Judge(out *Outcome, data string) error {
	stored, err := storedAnswers(data)
	if err != nil {
		return err
	}
	for _, c := range out.Clients {
		c.End()
		a := c.Account()
		a.Kills, a.Stored = out.Kills, stored[c.C.Session]
		out.Judge(a)
	}
	return nil
}

// counts: the client's server counts durably.
func (s *Storm) counts(c *Resumer) bool { return !strings.HasSuffix(c.C.URL, "/"+Child) }

// Child is the name of a server that is a process, and counts nothing.
const Child = "server"

// call makes a session's calls, up to three at once.
func (s *Storm) call(ctx context.Context, c *Resumer, r *rand.Rand, begun *atomic.Int64) {
	for n := 0; n < s.Calls; {
		var together sync.WaitGroup
		for range min(1+r.IntN(3), s.Calls-n) {
			n++
			tool, arguments, want, progress := "incr", `{}`, "", false
			kind := r.IntN(10)
			if kind > 4 && !s.counts(c) {
				kind = 0
			}
			switch {
			case kind == 0 && s.Fulls > 0 && s.counts(c):
				// What fills a log, to see a disk that is full soon.
				tool, want = "echo", strings.Repeat("kalpa ", 4000)
				arguments = fmt.Sprintf(`{"text":%q}`, want)
			case kind <= 2:
				tool, want = "add", strconv.Itoa(n+s.Sessions)
				arguments = fmt.Sprintf(`{"a":%d,"b":%d}`, n, s.Sessions)
			case kind <= 4:
				ms := 20 + r.IntN(200)
				tool, want, progress = "sleep", fmt.Sprintf("slept %d ms", ms), true
				arguments = fmt.Sprintf(`{"ms":%d,"steps":4}`, ms)
			}
			together.Go(func() {
				defer begun.Add(1)
				if ctx.Err() != nil {
					return
				}
				c.await(c.Call(tool, arguments, want, progress))
			})
		}
		together.Wait()
	}
}

// await waits for an answer, but not until the storm is over: then all are looked at.
func (r *Resumer) await(a *Attempt) {
	if r.fateOf(a) != accepted {
		return // a client has been told by its connection
	}
	select {
	case <-a.answered:
	case <-r.ctx.Done():
	case <-time.After(5 * time.Second):
	}
}

// owed is how many calls of a client were accepted and are not answered.
func (r *Resumer) owed() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.calls {
		if a.post.fate == accepted && !closed(a.answered) {
			n++
		}
	}
	return n
}

// weather resets, kills, pauses and fills until all calls have been made.
func (s *Storm) weather(ctx context.Context, h Machine, out *Outcome, begun *atomic.Int64) error {
	r := rand.New(rand.NewPCG(s.Seed, 0)) //nolint:gosec // it has to be repeatable
	total := s.Sessions * s.Calls
	// What happens when so many calls have been made.
	type change struct {
		at int
		do func() error
	}
	var changes []change
	add := func(times int, do func() error) {
		for n := range times {
			changes = append(changes, change{total*n/times + r.IntN(max(total/times, 1)), do})
		}
	}
	add(s.Kills, func() error {
		h.Kill()
		out.Kills = append(out.Kills, time.Now())
		return h.Restart(ctx)
	})
	add(s.Pauses, func() error {
		out.Pauses++
		if err := h.Pause(); err != nil {
			return err
		}
		time.Sleep(100*time.Millisecond + time.Duration(r.IntN(1500))*time.Millisecond)
		return h.Continue()
	})
	add(s.Fulls, func() error { return s.full(ctx, h, out) })
	slices.SortStableFunc(changes, func(a, b change) int { return a.at - b.at })
	causes := []string{"memory_limit", "cpu_limit", "aborted", "code_updated"}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for int(begun.Load()) < total {
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case <-h.Ended():
			// It may have been about to when there was room again.
			if time.Since(out.room) > afterFull {
				return errors.New("the host has ended by itself")
			}
			out.Ended++
			out.Kills = append(out.Kills, time.Now())
			if err := h.Restart(ctx); err != nil {
				return err
			}
		case <-tick.C:
		}
		if len(changes) > 0 && int(begun.Load()) >= changes[0].at {
			do := changes[0].do
			changes = changes[1:]
			if err := do(); err != nil {
				return err
			}
			continue
		}
		isolate := r.IntN(s.Isolates)
		reset := admin.Reset{Target: admin.Target{Isolate: &isolate}, Cause: causes[r.IntN(len(causes))]}
		if _, err := h.Admin().Reset(ctx, reset); err != nil && ctx.Err() == nil {
			out.Fault("a reset of isolate %d: %v", isolate, err)
		}
		out.Resets++
	}
	return nil
}

// afterFull is how long after a full disk a host may still end for its sake.
const afterFull = 30 * time.Second

// full fills the disk for a while. The host must not go on without its disk: it ends
// when it has to write what does not fit. The store has some room of its own, so that may
// take longer than the storm has patience; then the host is killed, and has to start on
// the disk that is full. Either way the next one starts when there is room.
func (s *Storm) full(ctx context.Context, h Machine, out *Outcome) error {
	if err := s.Fill(true); err != nil {
		return err
	}
	out.Fulls++
	gone := func(limit time.Duration) bool {
		select {
		case <-h.Ended():
			return true
		case <-time.After(limit):
		case <-ctx.Done():
		}
		return false
	}
	ended := gone(3 * time.Second)
	if !ended {
		h.Kill()
	}
	out.Kills = append(out.Kills, time.Now())
	restarted := make(chan error, 1)
	if !ended {
		go func() { restarted <- h.Restart(ctx) }() // it may wait for room
		select {
		case err := <-restarted:
			restarted <- err
		case <-time.After(3 * time.Second):
		}
	}
	err := s.Fill(false)
	out.room = time.Now()
	if !ended {
		if began := <-restarted; errors.Is(began, ErrEnded) {
			ended = true
		} else {
			err = errors.Join(err, began)
		}
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if ended = ended || gone(3*time.Second); !ended {
		return nil // it lives on the room that it has
	}
	out.Ended++
	out.Kills = append(out.Kills, time.Now())
	return h.Restart(ctx)
}

// storedAnswers counts the answers in the logs of all sessions, by session and request.
// What was delivered may be gone from there; what is there must have been.
func storedAnswers(dir string) (map[string]map[string]int, error) {
	all := map[string]map[string]int{}
	return all, Rows(dir, func(name string, e storage.Entry) error {
		if !strings.HasPrefix(e.Key, "e/") {
			return nil
		}
		var m Message
		if err := unmarshal(string(e.Value), &m); err != nil {
			return fmt.Errorf("%s of session %s: %w", e.Key, name, err)
		}
		if m.Method == "" {
			if all[name] == nil {
				all[name] = map[string]int{}
			}
			all[name][string(m.ID)]++
		}
		return nil
	})
}

// Rows reads what a host that has ended has left in storage of its sessions.
func Rows(dir string, row func(session string, e storage.Entry) error) error {
	store, err := pebble.Open(pebble.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // it was only read
	ctx := context.Background()
	for after := ""; ; {
		page, err := store.Objects(ctx, session.Class, after, 100)
		if err != nil {
			return err
		}
		for _, id := range page {
			for e, err := range store.List(ctx, id, storage.Range{}) {
				if err != nil {
					return err
				}
				if err := row(id.Name, e); err != nil {
					return err
				}
			}
			after = id.Name
		}
		if len(page) < 100 {
			return nil
		}
	}
}
