package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/internal/seams"
)

// scripted is a Backend whose disk does what a test tells it.
type scripted struct {
	mu      sync.Mutex
	boot    uint32
	heads   map[ID]uint64
	groups  []*scriptedGroup
	disk    chan error // one for each Wait; nil: every Wait returns at once
	apply   error
	headErr error
	bootErr error
}

type scriptedGroup struct {
	b                *scripted
	writes           []string
	applied, durable bool
}

func (b *scripted) NextBoot() (uint32, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.boot++
	return b.boot, b.bootErr
}

func (b *scripted) Head(id ID) (uint64, Alarm, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		if !g.applied {
			panic("a head was read before an earlier group was applied")
		}
	}
	return b.heads[id], Alarm{}, b.headErr
}

func (b *scripted) NewGroup() Group {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := &scriptedGroup{b: b}
	b.groups = append(b.groups, g)
	return g
}

func (g *scriptedGroup) Add(w Write) {
	g.b.mu.Lock()
	defer g.b.mu.Unlock()
	what := w.ID.Name + ":"
	if w.Clear {
		what += "clear"
	}
	for _, e := range w.Puts {
		what += e.Key
	}
	if w.Fence {
		g.b.heads[w.ID] = w.Epoch
	}
	g.writes = append(g.writes, what)
}

func (g *scriptedGroup) Apply() error {
	g.b.mu.Lock()
	defer g.b.mu.Unlock()
	g.applied = true
	return g.b.apply
}

func (g *scriptedGroup) Wait() error {
	if g.b.disk != nil {
		if err := <-g.b.disk; err != nil {
			return err
		}
	}
	g.b.mu.Lock()
	defer g.b.mu.Unlock()
	g.durable = true
	return nil
}

// log is the groups so far.
func (b *scripted) log() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, g := range b.groups {
		out = append(out, fmt.Sprint(g.writes))
	}
	return out
}

// newCommitter runs in a bubble, so that "everything is still" can be waited for.
func newCommitter(t *testing.T, b *scripted, o CommitterOptions) *Committer {
	t.Helper()
	b.heads = map[ID]uint64{}
	c, err := NewCommitter(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustClaim(t *testing.T, c *Committer, id ID) (epoch uint64) {
	t.Helper()
	c.Claim(id, func(e uint64, _ bool, err error) {
		if err != nil {
			t.Errorf("claim %v: %v", id, err)
		}
		epoch = e
	})
	synctest.Wait()
	if epoch == 0 {
		t.Fatalf("claim %v was not answered", id)
	}
	return epoch
}

func keyed(id ID, epoch uint64, key string) *Batch {
	return &Batch{ID: id, Epoch: epoch, Puts: []Entry{{Key: key}}}
}

func TestWhatWaitsForTheDiskGrowsIntoOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{}
		c := newCommitter(t, b, CommitterOptions{Window: 1})
		id := ID{"c", "n"}
		epoch := mustClaim(t, c, id)
		b.disk = make(chan error)
		acknowledged := ""
		for i := range 9 {
			key := fmt.Sprint(i)
			c.Submit(keyed(id, epoch, key), func(err error) { acknowledged += key })
			if i < 4 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		// One is waited for, one is in the window, one is held by the forming
		// goroutine; the rest has become one group by the time there is room.
		if want := []string{"[n:0]", "[n:1]", "[n:2]"}; !slices.Equal(b.log(), want) {
			t.Errorf("groups %v, want %v", b.log(), want)
		}
		if acknowledged != "" {
			t.Errorf("%q was acknowledged before it was durable (I2)", acknowledged)
		}
		b.disk <- nil
		synctest.Wait()
		if acknowledged != "0" {
			t.Errorf("%q was acknowledged, and 0 is durable", acknowledged)
		}
		close(b.disk)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if want := []string{"[n:0]", "[n:1]", "[n:2]", "[n:3 n:4 n:5 n:6 n:7 n:8]"}; !slices.Equal(b.log(), want) {
			t.Errorf("groups %v, want %v", b.log(), want)
		}
		if acknowledged != "012345678" {
			t.Errorf("acknowledged: %q", acknowledged)
		}
		if s := c.Stats(); s.Commits != 9 || s.Groups != 4 || s.Claims != 1 || s.QueueBytes != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

// crowd is a Runner whose Yield lets others submit.
type crowd struct {
	run.Runner
	turn func()
}

func (c crowd) Yield() { c.turn() }

// Those that are ready to submit share the group that is about to form, and who goes on
// and on submitting does not keep it from forming.
func TestWhoIsReadySharesTheGroup(t *testing.T) {
	for _, tc := range []struct {
		ready int
		want  []string
	}{
		{0, []string{"[n:0]"}},
		{3, []string{"[n:0 n:1 n:2 n:3]"}},
		{yields, []string{"[n:0 n:1 n:2 n:3 n:4 n:5 n:6 n:7 n:8]"}},
		{yields + 2, []string{"[n:0 n:1 n:2 n:3 n:4 n:5 n:6 n:7 n:8]"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &scripted{}
			var c *Committer
			var epoch uint64
			id, at := ID{"c", "n"}, 0
			submit := func() {
				if epoch != 0 && at <= tc.ready {
					at++
					c.Submit(keyed(id, epoch, fmt.Sprint(at-1)), func(error) {})
				}
			}
			c = newCommitter(t, b, CommitterOptions{Runner: crowd{run.Real, submit}})
			epoch = mustClaim(t, c, id)
			submit()
			synctest.Wait()
			if !slices.Equal(b.log(), tc.want) {
				t.Errorf("%d ready: groups %v, want %v", tc.ready, b.log(), tc.want)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A process that is killed at a commit has not applied it, or has it on disk and has
// told nobody.
func TestKilledAtACommit(t *testing.T) {
	for want, out := range map[string]seams.Storage{
		"applied 1, durable 1, told 1": {KillBefore: 2},
		"applied 2, durable 2, told 1": {KillAfter: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, told, got := &scripted{}, 0, ""
			c := newCommitter(t, b, CommitterOptions{Seams: out, Kill: func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				applied, durable := 0, 0
				for _, g := range b.groups {
					if g.applied {
						applied++
					}
					if g.durable {
						durable++
					}
				}
				got += fmt.Sprintf("applied %d, durable %d, told %d", applied, durable, told)
			}})
			id := ID{"c", "n"}
			epoch := mustClaim(t, c, id) // writes nothing
			for range 3 {
				c.Submit(keyed(id, epoch, "k"), func(error) { told++ })
				synctest.Wait()
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if got != want {
				t.Errorf("killed with %q, want %q", got, want)
			}
		})
	}
}

func TestGroupsAreBoundedInBytesAndCount(t *testing.T) {
	id := ID{"c", "n"}
	size := keyed(id, 1, "k").Size()
	for name, o := range map[string]CommitterOptions{
		"count": {Window: 1, GroupCount: 3},
		"bytes": {Window: 1, GroupBytes: 3 * size},
		"edge":  {Window: 1, GroupBytes: 4*size - 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &scripted{}
				c := newCommitter(t, b, o)
				epoch := mustClaim(t, c, id)
				b.disk = make(chan error)
				for range 3 { // one at the disk, one in the window, one held
					c.Submit(keyed(id, epoch, "x"), func(error) {})
					synctest.Wait()
				}
				for range 7 {
					c.Submit(keyed(id, epoch, "k"), func(error) {})
				}
				large := &Batch{ID: id, Epoch: epoch, Puts: []Entry{{Key: "large", Value: make([]byte, 9*size)}}}
				c.Submit(large, func(error) {})
				close(b.disk)
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				want := []string{"[n:k n:k n:k]", "[n:k n:k n:k]", "[n:k]", "[n:large]"}
				if name == "count" {
					want = []string{"[n:k n:k n:k]", "[n:k n:k n:k]", "[n:k n:large]"}
				}
				if got := b.log()[3:]; !slices.Equal(got, want) {
					t.Errorf("groups %v, want %v", got, want)
				}
			})
		})
	}
}

// I12: the queue is bounded, and at its edge Submit blocks, in order.
func TestSubmitBlocksWhenTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := ID{"c", "n"}
		size := keyed(id, 1, "k").Size()
		b := &scripted{}
		c := newCommitter(t, b, CommitterOptions{Window: 1, QueueBytes: 4 * size})
		epoch := mustClaim(t, c, id)
		b.disk = make(chan error)
		var mu sync.Mutex
		returned, acknowledged := "", ""
		submit := func(key string, n int) {
			go func() {
				batch := keyed(id, epoch, key)
				batch.Puts[0].Value = make([]byte, n)
				c.Submit(batch, func(error) { acknowledged += key })
				mu.Lock()
				returned += key
				mu.Unlock()
			}()
			synctest.Wait()
		}
		check := func(when, wantReturned, wantAcknowledged string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			// Those that are let in together return in any order.
			letters := []byte(returned)
			slices.Sort(letters)
			returned = string(letters)
			if returned != wantReturned || acknowledged != wantAcknowledged {
				t.Errorf("%s: returned %q, want %q; acknowledged %q, want %q", when, returned, wantReturned, acknowledged, wantAcknowledged)
			}
		}
		// a is at the disk, b in the window; c is held, and counts until it is
		// handed over. d, e and f fill the queue to its last byte.
		for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
			submit(k, 0)
		}
		check("filled", "abcdef", "")
		if q := c.Stats().QueueBytes; q != 4*size {
			t.Errorf("%d bytes are queued, want %d", q, 4*size)
		}
		submit("g", 0)
		submit("h", 5*size) // larger than the queue
		submit("i", 0)
		check("over the edge", "abcdef", "")
		claimed, released := false, ID{"c", "other"}
		c.Claim(released, func(uint64, bool, error) { claimed = true })
		c.Release(released, 1)
		check("claims and releases don't block", "abcdef", "")
		b.disk <- nil
		check("c is handed over; the claim and the release fill its room", "abcdef", "a")
		b.disk <- nil
		check("d, e, f are handed over; g fits; h waits for an empty queue", "abcdefg", "ab")
		submit("j", 0) // would fit, and must not overtake h and i
		check("j is behind i", "abcdefg", "ab")
		b.disk <- nil
		check("g is handed over; h fits alone", "abcdefgh", "abc")
		if claimed {
			t.Error("the claim was answered before what was submitted before it")
		}
		b.disk <- nil
		check("h is handed over; i and j fit", "abcdefghij", "abcdef")
		if !claimed {
			t.Error("the claim was not answered")
		}
		close(b.disk)
		check("all", "abcdefghij", "abcdefghij")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseRefusesTheBlockedAndDrainsTheQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := ID{"c", "n"}
		size := keyed(id, 1, "k").Size()
		b := &scripted{}
		c := newCommitter(t, b, CommitterOptions{Window: 1, QueueBytes: size})
		epoch := mustClaim(t, c, id)
		b.disk = make(chan error)
		var mu sync.Mutex
		outcomes := map[string]error{}
		for _, k := range []string{"a", "b", "c", "d"} {
			go c.Submit(keyed(id, epoch, k), func(err error) {
				mu.Lock()
				outcomes[k] = err
				mu.Unlock()
			})
			synctest.Wait()
		}
		closed := make(chan error)
		go func() { closed <- c.Close() }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed before the queue was drained")
		default:
		}
		close(b.disk)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for k, want := range map[string]error{"a": nil, "b": nil, "c": nil, "d": ErrClosed} {
			if err, ok := outcomes[k]; !ok || !errors.Is(err, want) {
				t.Errorf("%s: answered %v with %v, want %v", k, ok, err, want)
			}
		}
	})
}

// A callback may claim, release and, while there is room, submit.
func TestCallbacksMayUseTheCommitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommitter(t, &scripted{}, CommitterOptions{})
		id := ID{"c", "n"}
		steps := 0
		c.Claim(id, func(epoch uint64, _ bool, err error) {
			c.Submit(keyed(id, epoch, "k"), func(error) {
				c.Release(id, epoch)
				c.Claim(id, func(uint64, bool, error) { steps++ })
			})
		})
		synctest.Wait()
		if steps != 1 {
			t.Errorf("%d steps", steps)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// After a failed write nothing is acknowledged any more, and nothing is written.
func TestAFailureIsFinal(t *testing.T) {
	broken := errors.New("broken disk")
	for _, at := range []string{"apply", "wait"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &scripted{}
				var fatal []error
				c := newCommitter(t, b, CommitterOptions{Fatal: func(err error) { fatal = append(fatal, err) }})
				id := ID{"c", "n"}
				epoch := mustClaim(t, c, id)
				b.disk = make(chan error, 1)
				if at == "apply" {
					b.apply = broken
				} else {
					b.disk <- broken
				}
				var outcomes []error
				note := func(err error) { outcomes = append(outcomes, err) }
				for range 3 {
					c.Submit(keyed(id, epoch, "k"), note)
					synctest.Wait()
				}
				c.Claim(id, func(_ uint64, _ bool, err error) { note(err) })
				c.Fail(errors.New("a second failure"))
				if err := c.Close(); !errors.Is(err, broken) {
					t.Errorf("close: %v", err)
				}
				for i, err := range outcomes {
					var e *Error
					if !errors.Is(err, broken) || !errors.As(err, &e) {
						t.Errorf("outcome %d: %v", i, err)
					}
				}
				if len(outcomes) != 4 || len(fatal) != 1 || !errors.Is(fatal[0], broken) {
					t.Errorf("%d outcomes, fatal: %v", len(outcomes), fatal)
				}
				if got := b.log(); len(got) != 1 {
					t.Errorf("written after the failure: %v", got)
				}
			})
		})
	}
}

func TestAFailedReadFailsTheClaimAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{headErr: errors.New("bad block")}
		c := newCommitter(t, b, CommitterOptions{})
		id := ID{"c", "n"}
		var failed error
		c.Claim(id, func(_ uint64, _ bool, err error) { failed = err })
		synctest.Wait()
		if !errors.Is(failed, b.headErr) {
			t.Errorf("claim: %v", failed)
		}
		b.mu.Lock()
		b.headErr = nil
		b.heads[id] = MakeEpoch(9, 9)
		b.mu.Unlock()
		c.Claim(id, func(_ uint64, _ bool, err error) { failed = err })
		synctest.Wait()
		if !errors.Is(failed, ErrStaleEpoch) {
			t.Errorf("claim over a newer epoch: %v", failed)
		}
		mustClaim(t, c, ID{"c", "other"})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if n := c.fence.Claimed(); n != 1 {
			t.Errorf("%d objects are claimed, want 1", n)
		}
	})
}

func TestANewBootNumberIsTakenWhenTheCounterIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{}
		c := newCommitter(t, b, CommitterOptions{})
		id := ID{"c", "n"}
		c.fence.counter = 1<<32 - 2
		last := mustClaim(t, c, id)
		next := mustClaim(t, c, id)
		if last != MakeEpoch(1, 1<<32-1) || next != MakeEpoch(2, 1) {
			t.Errorf("epochs %x, %x", last, next)
		}
		c.fence.counter = 1<<32 - 1
		b.bootErr = ErrBootsExhausted
		var failed error
		c.Claim(id, func(_ uint64, _ bool, err error) { failed = err })
		synctest.Wait()
		if !errors.Is(failed, ErrBootsExhausted) {
			t.Errorf("claim without a boot number: %v", failed)
		}
		c.Submit(keyed(id, next, "k"), func(err error) { failed = err })
		if err := c.Close(); err != nil || failed != nil {
			t.Errorf("the incarnation that was there: %v, %v", failed, err)
		}
	})
}

// A backend may read the rows of an object that is cleared.
func TestAClearComesAfterWhatItsObjectWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{}
		c := newCommitter(t, b, CommitterOptions{Window: 1})
		one, two := ID{"c", "one"}, ID{"c", "two"}
		e1, e2 := mustClaim(t, c, one), mustClaim(t, c, two)
		b.disk = make(chan error)
		for range 3 { // one at the disk, one in the window, one held
			c.Submit(keyed(two, e2, "x"), func(error) {})
			synctest.Wait()
		}
		c.Submit(keyed(one, e1, "a"), func(error) {})
		c.Submit(&Batch{ID: two, Epoch: e2, Clear: true}, func(error) {})
		c.Submit(&Batch{ID: one, Epoch: e1, Clear: true}, func(error) {})
		c.Submit(keyed(one, e1, "b"), func(error) {})
		c.Submit(&Batch{ID: one, Epoch: e1, Clear: true}, func(error) {})
		close(b.disk)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		want := []string{"[one:a two:clear]", "[one:clear one:b]", "[one:clear]"}
		if got := b.log()[3:]; !slices.Equal(got, want) {
			t.Errorf("groups %v, want %v", got, want)
		}
	})
}

func TestTheObserverIsNotToldOfWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{}
		c := newCommitter(t, b, CommitterOptions{Fatal: func(error) {}})
		told := 0
		c.OnAlarm(func(ID, time.Time) { told++ })
		id := ID{"c", "n"}
		epoch := mustClaim(t, c, id)
		at := Alarm{At: time.Unix(1, 0)}
		c.Submit(&Batch{ID: id, Epoch: epoch, Alarm: &at}, func(error) {})
		synctest.Wait()
		b.mu.Lock()
		b.apply = errors.New("broken disk")
		b.mu.Unlock()
		c.Submit(&Batch{ID: id, Epoch: epoch, Alarm: &at}, func(error) {})
		c.Close()
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}
