//go:build unix

package pebble_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

var (
	metaFirst = flag.Uint64("pebble.first", 1, "the first seed of TestMetamorphic")
	metaSeeds = flag.Uint64("pebble.seeds", 5, "how many seeds of TestMetamorphic")
	metaOps   = flag.Int("pebble.ops", 250, "how many operations each seed has")
)

// Random operations on a store whose engine has random options, with compactions, that
// loses its power, fails to write, and has bits turned: after each of these it holds a
// whole beginning of what was written, with all of it that was acknowledged (I3).
func TestMetamorphic(t *testing.T) {
	var sum tally
	for seed := *metaFirst; seed < *metaFirst+*metaSeeds; seed++ {
		m := &metamorphic{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), seed: seed, fs: vfs.NewCrashableMem(), tally: &sum}
		m.run(*metaOps)
		if t.Failed() {
			t.Fatalf("again: go test ./storage/pebble -run TestMetamorphic -pebble.first %d -pebble.seeds 1 -pebble.ops %d", seed, *metaOps)
		}
	}
	t.Logf("%d seeds: %+v", *metaSeeds, sum)
	if sum.Crashes == 0 || sum.Torn == 0 || sum.Injected == 0 || sum.Flips == 0 || sum.Compactions == 0 {
		t.Errorf("not everything has happened: %+v", sum)
	}
}

// tally is what has happened.
type tally struct {
	Commits, Crashes, Torn, Injected, Ended, Reopened, Flips, Refused, Compactions int
}

// metamorphic is a store and what it has to hold.
type metamorphic struct {
	*testing.T
	*rand.Rand
	*tally
	seed uint64
	fs   *vfs.MemFS
	s    *pebble.Store

	durability storage.Durability
	claims     map[storage.ID]uint64
	epoch      uint64 // the newest of all

	// states are what the store has held, each batch after the one before; digests are
	// theirs. durable is the least that must be found again.
	states  []holding
	digests []string
	durable int
	acked   atomic.Int64

	faults *faults
	left   *atomic.Int64 // how often tables fail
	roomy  bool          // the memtable is never full
	fatal  *atomic.Bool
}

// holding is rows and alarms, by object.
type holding map[storage.ID]thing

type thing struct {
	rows  map[string]string
	alarm storage.Alarm
}

func (c holding) clone() holding {
	all := maps.Clone(c)
	for id, o := range all {
		all[id] = thing{maps.Clone(o.rows), o.alarm}
	}
	return all
}

// digest tells holdings apart.
func (c holding) digest() string {
	var lines []string
	for id, o := range c {
		for k, v := range o.rows {
			lines = append(lines, fmt.Sprintf("%v %q %q", id, k, v))
		}
		if !o.alarm.At.IsZero() {
			lines = append(lines, fmt.Sprintf("%v alarm %v %d", id, o.alarm.At.UTC(), o.alarm.Retry), fmt.Sprintf("due %v %v", o.alarm.At.UTC(), id))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

var metaIDs = func() (ids []storage.ID) {
	for i := range 6 {
		ids = append(ids, storage.ID{Class: "c" + strconv.Itoa(i%2), Name: strconv.Itoa(i)})
	}
	return ids
}()

// stored is the digest of what a store holds.
func stored(s storage.Store) (string, error) {
	ctx := context.Background()
	var lines []string
	for _, id := range metaIDs {
		for e, err := range s.List(ctx, id, storage.Range{}) {
			if err != nil {
				return "", err
			}
			lines = append(lines, fmt.Sprintf("%v %q %q", id, e.Key, e.Value))
		}
		a, err := s.Alarm(ctx, id)
		if err != nil {
			return "", err
		}
		if !a.At.IsZero() {
			lines = append(lines, fmt.Sprintf("%v alarm %v %d", id, a.At.UTC(), a.Retry))
		}
	}
	due, err := s.Due(ctx, storage.Cursor{}, noon.AddDate(1, 0, 0), 1<<20)
	if err != nil {
		return "", err
	}
	for _, d := range due {
		lines = append(lines, fmt.Sprintf("due %v %v", d.At.UTC(), d.ID))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

func (m *metamorphic) run(ops int) {
	if m.IntN(3) == 0 {
		m.durability = storage.Relaxed
	}
	m.states, m.digests = []holding{{}}, []string{""}
	m.open()
	for range ops {
		if m.Failed() {
			return
		}
		switch n := m.IntN(100); {
		case n < 50:
			m.commit(1)
		case n < 75:
			m.commit(2 + m.IntN(20))
		case n < 82:
			m.compare()
		case n < 85:
			if err := m.s.Engine().Flush(); err != nil {
				m.Errorf("seed %d: flush: %v", m.seed, err)
			}
		case n < 87:
			m.Compactions++
			if err := m.s.Engine().Compact(context.Background(), []byte{0}, []byte{0xff}, m.IntN(2) == 0); err != nil {
				m.Errorf("seed %d: compaction: %v", m.seed, err)
			}
		case n < 91:
			m.close()
			m.Reopened++
			if m.IntN(4) == 0 {
				m.flip()
			}
			m.open()
		case n < 96:
			m.crash()
		default:
			m.inject()
		}
	}
	m.close()
}

// tune draws the engine's options: small, so that much is flushed and compacted.
func (m *metamorphic) tune(o *engine.Options) {
	o.MemTableSize = 16 << 10 << m.IntN(6)
	if m.roomy {
		o.MemTableSize = 16 << 20
	}
	o.MemTableStopWritesThreshold = 2 + m.IntN(3)
	o.L0CompactionThreshold = 1 + m.IntN(4)
	o.L0StopWritesThreshold = 8 + m.IntN(8)
	o.LBaseMaxBytes = 8 << 10 << m.IntN(6)
	o.MaxManifestFileSize = 512 << m.IntN(8)
	o.BytesPerSync = 1 << 10 << m.IntN(8)
	o.WALBytesPerSync = m.IntN(2) * 4096
	if o.DisableAutomaticCompactions = m.IntN(5) == 0; o.DisableAutomaticCompactions {
		o.L0StopWritesThreshold = 1 << 20 // nobody would ever let the writers go on
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = 64 << m.IntN(7)
		if m.IntN(4) == 0 {
			o.Levels[i].FilterPolicy = nil
		}
	}
}

func (m *metamorphic) options() pebble.Options {
	f, left, fatal := &faults{}, &atomic.Int64{}, &atomic.Bool{} // an engine that has given up goes on using them
	m.faults, m.left, m.fatal = f, left, fatal
	return pebble.Options{
		Dir: "data", FS: errorfs.Wrap(m.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			err := f.inject(op)
			if err != nil && f.suffix == ".sst" && left.Add(-1) < 0 {
				return nil
			}
			return err
		})), Durability: m.durability, Logger: silent,
		Fatal: func(error) { fatal.Store(true) },
	}.Tuned(m.tune)
}

// open opens what is on the disk, which has to be right.
func (m *metamorphic) open() {
	s, err := pebble.Open(m.options())
	if err != nil {
		m.Fatalf("seed %d: %v", m.seed, err)
	}
	m.s = s
	m.recovered()
	m.claims = map[storage.ID]uint64{}
}

// recovered finds out which beginning of the history a store holds, and goes on from
// there.
func (m *metamorphic) recovered() {
	got, err := stored(m.s)
	if err != nil {
		m.Fatalf("seed %d: %v", m.seed, err)
	}
	at := len(m.digests) - 1
	for at >= 0 && m.digests[at] != got {
		at--
	}
	if at < 0 {
		m.Fatalf("seed %d: the store holds what it never held:\n%s", m.seed, got)
	}
	if at < m.durable && m.digests[m.durable] != got {
		m.Fatalf("seed %d: %d batches are stored, and %d were acknowledged (I3)", m.seed, at, m.durable)
	}
	// What an engine has recovered is durable.
	m.states, m.digests, m.durable = m.states[at:at+1], m.digests[at:at+1], 0
	m.acked.Store(0)
}

func (m *metamorphic) claim(id storage.ID) (uint64, bool) {
	if e := m.claims[id]; e != 0 && m.IntN(20) > 0 {
		return e, true
	}
	e, err := storage.Claim(context.Background(), m.s, id)
	if err != nil {
		if !m.fatal.Load() {
			m.Errorf("seed %d: claim: %v", m.seed, err)
		}
		return 0, false
	}
	if e <= m.epoch {
		m.Errorf("seed %d: epoch %d after %d (I4)", m.seed, e, m.epoch)
	}
	m.epoch, m.claims[id] = e, e
	return e, true
}

// batch draws a batch, and what the store holds after it.
func (m *metamorphic) batch() (*storage.Batch, bool) {
	id := metaIDs[m.IntN(len(metaIDs))]
	e, ok := m.claim(id)
	if !ok {
		return nil, false
	}
	next := m.states[len(m.states)-1].clone()
	o, there := next[id]
	b := &storage.Batch{ID: id, Epoch: e, Clear: m.IntN(25) == 0}
	if b.Clear || !there {
		o = thing{rows: map[string]string{}}
	}
	key := func() string { return fmt.Sprintf("k/%02d", m.IntN(40)) }
	for range m.IntN(3) {
		k := key()
		b.Deletes = append(b.Deletes, k)
		delete(o.rows, k)
	}
	for range m.IntN(5) {
		e := storage.Entry{Key: key(), Value: bytes.Repeat([]byte{byte('a' + m.IntN(26))}, m.IntN(1000))} //nolint:gosec // it is a letter
		b.Puts = append(b.Puts, e)
		o.rows[e.Key] = string(e.Value)
	}
	switch m.IntN(4) {
	case 0:
		b.Alarm = &storage.Alarm{}
		o.alarm = storage.Alarm{}
	case 1:
		o.alarm = storage.Alarm{At: noon.Add(time.Duration(m.IntN(10)) * time.Minute), Retry: m.IntN(3)}
		a := o.alarm
		b.Alarm = &a
	}
	next[id] = o
	m.states, m.digests = append(m.states, next), append(m.digests, next.digest())
	return b, true
}

// submit submits batches without waiting.
func (m *metamorphic) submit(n int) (answers chan error, sent int) {
	answers = make(chan error, n)
	for range n {
		b, ok := m.batch()
		if !ok {
			break
		}
		sent++
		number := int64(len(m.states) - 1)
		m.s.Submit(b, func(err error) {
			if err == nil {
				m.acked.Store(number) // in order
			}
			answers <- err
		})
	}
	return answers, sent
}

func (m *metamorphic) commit(n int) {
	answers, sent := m.submit(n)
	for range sent {
		m.Commits++
		if err := <-answers; err != nil && !m.fatal.Load() {
			m.Errorf("seed %d: commit: %v", m.seed, err)
		}
	}
}

func (m *metamorphic) compare() {
	got, err := stored(m.s)
	if err != nil || got != m.digests[len(m.digests)-1] {
		m.Errorf("seed %d: %v; the store holds\n%s\nwant\n%s", m.seed, err, got, m.digests[len(m.digests)-1])
	}
}

// close closes a store in order: all of it is durable then.
func (m *metamorphic) close() {
	if err := m.s.Close(); err != nil {
		m.Errorf("seed %d: close: %v", m.seed, err)
	}
	m.durable = len(m.digests) - 1
}

// crash loses the power while batches are under way.
func (m *metamorphic) crash() {
	m.Crashes++
	answers, sent := m.submit(m.IntN(15))
	for range m.IntN(sent + 1) {
		<-answers
		sent--
	}
	least := int(m.acked.Load())
	after := m.powerCut()
	for range sent {
		<-answers
	}
	if err := m.s.Close(); err != nil {
		m.Errorf("seed %d: close: %v", m.seed, err)
	}
	m.fs = after
	if m.durability == storage.Sync {
		m.durable = least
	}
	m.open()
}

// powerCut is the disk as a power cut leaves it: nothing that was not synced, but a
// beginning, of any length, of what was on its way to the live log.
//
// A clone that keeps some percentage is no function of its generator.
func (m *metamorphic) powerCut() *vfs.MemFS {
	all := m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: m.Rand})
	kept := m.fs.CrashClone(vfs.CrashCloneCfg{})
	names, err := kept.List("data")
	if err != nil {
		m.Fatal(err)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".log") })
	if len(names) == 0 {
		return kept
	}
	live := "data/" + names[len(names)-1]
	was, is := readFile(m.T, kept, live), readFile(m.T, all, live)
	if len(is) <= len(was) || !bytes.HasPrefix(is, was) {
		return kept
	}
	is = is[:len(was)+m.IntN(len(is)-len(was)+1)]
	if len(is) > len(was) {
		m.Torn++
	}
	writeFile(m.T, kept, live, is)
	return kept
}

// inject lets operations on one kind of files fail from now on. The process ends when
// its store says so, or a while later.
func (m *metamorphic) inject() {
	m.Injected++
	kinds, suffix := [][]errorfs.OpKind{syncs, writes}[m.IntN(2)], ".log"
	if m.IntN(2) == 0 {
		kinds, suffix = [][]errorfs.OpKind{syncs, writes, {errorfs.OpCreate}}[m.IntN(3)], ".sst"
		m.left.Store(1 + m.Int64N(3)) // the engine tries again, and nothing is written meanwhile
	} else {
		// Where the next log can't be begun the engine panics, and the process with it:
		// there is nothing to look at. So this one has room for all.
		m.close()
		m.roomy = true
		m.open()
		m.roomy = false
		m.commit(5)
	}
	m.faults.kinds, m.faults.suffix = kinds, suffix
	m.faults.on.Store(true)
	answers, sent := m.submit(1 + m.IntN(30))
	if m.faults.suffix == ".sst" {
		_, _ = m.s.Engine().AsyncFlush() // it may be refused
	}
	for range sent {
		if err := <-answers; err != nil && !m.fatal.Load() {
			m.Errorf("seed %d: a commit fails, and nobody is told: %v", m.seed, err)
		}
	}
	least := int(m.acked.Load())
	after := m.powerCut()
	m.faults.on.Store(false)
	if m.fatal.Load() {
		m.Ended++
	}
	_ = m.s.Close() // it tells of what has failed
	m.fs = after
	if m.durability == storage.Sync {
		m.durable = least
	}
	m.open()
}

// flip turns a bit of a file: the store is refused, or reads fail, or it holds what it
// held once; and nothing else is ever read. The bit is turned back afterwards.
func (m *metamorphic) flip() {
	m.Flips++
	names, err := m.fs.List("data")
	if err != nil {
		m.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		return !strings.HasSuffix(n, ".log") && !strings.HasSuffix(n, ".sst")
	})
	slices.Sort(names)
	if len(names) == 0 {
		return
	}
	clone := m.fs.CrashClone(vfs.CrashCloneCfg{})
	name := "data/" + names[m.IntN(len(names))]
	b := readFile(m.T, clone, name)
	if len(b) == 0 {
		return
	}
	b[m.IntN(len(b))] ^= 1 << m.IntN(8)
	writeFile(m.T, clone, name, b)
	s, err := pebble.Open(pebble.Options{Dir: "data", FS: clone, Durability: m.durability, Logger: silent, Fatal: func(error) {}}.Tuned(m.tune))
	if err != nil {
		m.Refused++
		return
	}
	got, err := stored(s)
	if err != nil {
		m.Refused++
	} else if !slices.Contains(m.digests, got) {
		m.Errorf("seed %d: with a bit of %s turned the store holds what it never held:\n%s", m.seed, name, got)
	}
	_ = s.Close() // likewise
}

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, fs vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		var dir vfs.File
		if dir, err = fs.OpenDir("data"); err == nil {
			err = errors.Join(dir.Sync(), dir.Close())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
