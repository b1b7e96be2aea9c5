package sim

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/storage"
)

// Disk is what outlives the processes of a simulated machine. What has been
// written to it can be read at once, and is durable a while later; a machine that
// loses power forgets a suffix of what was not, and a process that is killed may
// have got as far as any of it.
type Disk struct {
	s        *Scheduler
	rand     *rand.Rand
	image    *storage.Image
	unsynced []*diskGroup

	// Latency is how long a group takes to become durable.
	Latency func() time.Duration
	// ReadDelay is how long a read takes; nil: no time.
	ReadDelay func() time.Duration
	// Full makes writes fail, and FailReads reads.
	Full, FailReads bool
	// FailSync makes the next fsync fail.
	FailSync bool
	// Flipped is an object of whose rows a bit has turned. They can't be read.
	Flipped storage.ID
	// Lies: what is not durable is said to be. It is a broken disk, for tests of what
	// must notice.
	Lies bool
	// SameBoot: the boot number does not grow. Likewise.
	SameBoot bool
	// TriesAgain: an fsync that has failed is tried again, and then does not. Likewise.
	TriesAgain bool
	// Forgets: a crash takes back also what was durable, the last of it. Likewise.
	Forgets bool
	seams   seams.Storage // taken out of the committer
	// applies is told of each batch that can be read from now on, before it can.
	applies func(*storage.Write)
	failed  func(what string) // is told of a fault that has met something
	retried func()            // is told of a process that writes on after a failed fsync
	bad     *Process          // whose fsync has failed
	latest  *diskGroup        // that became durable
	upTo    time.Time         // what was written until then is durable
	refused time.Time         // when a read failed last
	overdue bool              // the alarm index could not be read, and has not been since: what is due waits

	syncs, lost int // groups that became durable, and that a crash took back
}

// NewDisk returns an empty disk.
func NewDisk(s *Scheduler) *Disk {
	d := &Disk{s: s, rand: s.Rand("disk"), image: storage.NewImage()}
	d.Latency = func() time.Duration { return time.Duration(50+d.rand.IntN(2000)) * time.Microsecond }
	return d
}

// Open opens the store that is on the disk, for a process: its committer is the
// real one. It is called in an event of the process.
func (d *Disk) Open(p *Process) (storage.Store, error) {
	c, err := storage.NewCommitter(diskBackend{d, p}, storage.CommitterOptions{
		Runner: p, Clock: p, Seams: d.seams,
		Fatal: func(error) { p.Kill() }, // what was being written is in doubt: the next start finds out
	})
	if err != nil {
		return nil, err
	}
	return &diskStore{Committer: c, d: d, p: p}, nil
}

// Crash is what happens to the disk when the process that writes to it is killed
// or the power fails: of what was not durable, a prefix stays.
func (d *Disk) Crash() {
	keep := d.rand.IntN(len(d.unsynced) + 1)
	if keep < len(d.unsynced) {
		d.tell("writes were torn")
	}
	if d.Forgets && d.latest != nil {
		d.unsynced, keep = append([]*diskGroup{d.latest}, d.unsynced...), 0
		d.latest = nil
	}
	for i := len(d.unsynced) - 1; i >= keep; i-- {
		for _, undo := range slices.Backward(d.unsynced[i].undo) {
			undo()
		}
		d.lost++
	}
	d.unsynced = nil
}

// Durable reports that nothing of a row is on its way to the disk.
func (d *Disk) Durable(id storage.ID, key string) bool {
	for _, g := range d.unsynced {
		for _, w := range g.writes {
			if w.ID == id && slices.ContainsFunc(w.Puts, func(e storage.Entry) bool { return e.Key == key }) {
				return false
			}
		}
	}
	return true
}

// blocked reports that something takes more than a moment to be written, or can't be
// read.
func (d *Disk) blocked() bool {
	return d.Full || d.FailReads || d.overdue || d.Flipped.Class != "" || slices.ContainsFunc(d.unsynced, func(g *diskGroup) bool { return g.ready.Sub(d.s.now) > time.Second })
}

// holds reports that nothing of a value is on its way to the disk.
func (d *Disk) holds(id storage.ID, key, value string) bool {
	for _, g := range d.unsynced {
		for _, w := range g.writes {
			if w.ID == id && slices.ContainsFunc(w.Puts, func(e storage.Entry) bool { return e.Key == key && string(e.Value) == value }) {
				return false
			}
		}
	}
	return true
}

type diskBackend struct {
	d *Disk
	p *Process
}

func (b diskBackend) NextBoot() (uint32, error) {
	if b.d.Full {
		return 0, errNoSpace
	}
	if b.d.SameBoot {
		return 1, nil
	}
	return b.d.image.NextBoot(), nil
}

func (b diskBackend) Head(id storage.ID) (uint64, storage.Alarm, error) {
	if b.d.SameBoot {
		_, alarm := b.d.image.Head(id)
		return 0, alarm, nil
	}
	epoch, alarm := b.d.image.Head(id)
	return epoch, alarm, nil
}

func (b diskBackend) NewGroup() storage.Group { return &diskGroup{b: b} }

type diskGroup struct {
	b      diskBackend
	writes []storage.Write
	undo   []func()
	ready  time.Time
	// written is when it was applied.
	written time.Time
}

var errNoSpace = errors.New("no space left on device")

func (g *diskGroup) Add(w storage.Write) { g.writes = append(g.writes, w) }

func (g *diskGroup) Apply() error {
	d := g.b.d
	if d.bad == g.b.p && d.retried != nil {
		d.retried()
	}
	if d.Full {
		return errNoSpace
	}
	for i := range g.writes {
		if d.applies != nil {
			d.applies(&g.writes[i])
		}
		g.undo = append(g.undo, d.image.Undo(&g.writes[i]))
		d.image.Apply(&g.writes[i])
	}
	g.written = d.s.now
	g.ready = d.s.now.Add(d.Latency())
	d.unsynced = append(d.unsynced, g)
	return nil
}

func (g *diskGroup) Wait() error {
	d := g.b.d
	if d.Lies {
		d.s.After(g.ready.Sub(d.s.now), func() { d.synced(g) })
		return nil
	}
	g.b.p.Sleep(g.ready.Sub(d.s.now))
	switch {
	case d.Full:
		return errNoSpace
	case d.FailSync && d.TriesAgain:
		d.FailSync = false
		return nil
	case d.FailSync:
		d.FailSync, d.bad = false, g.b.p
		d.tell("sync-error")
		return errUnsynced
	}
	d.synced(g)
	return nil
}

func (d *Disk) tell(what string) {
	if d.failed != nil {
		d.failed(what)
	}
}

func (d *Disk) synced(g *diskGroup) {
	if i := slices.Index(d.unsynced, g); i >= 0 {
		d.latest, d.upTo = g, g.written
		d.unsynced = slices.Delete(d.unsynced, 0, i+1)
		d.syncs++
	}
}

// diskStore is the store of one process.
type diskStore struct {
	*storage.Committer
	d *Disk
	p *Process
}

var _ storage.Store = (*diskStore)(nil)

var (
	errUnreadable = errors.New("input/output error")
	errUnsynced   = errors.New("fsync: input/output error")
	errFlipped    = errors.New("checksum mismatch")
)

// read is the common head of the reads; invalid is what is wrong with their
// arguments.
func (s *diskStore) read(ctx context.Context, op string, id storage.ID, invalid error) error {
	if err := cmp.Or(ctx.Err(), invalid); err != nil {
		return &storage.Error{Op: op, ID: id, Err: err}
	}
	if s.d.ReadDelay != nil {
		if wait := s.d.ReadDelay(); wait > 0 {
			s.p.Sleep(wait)
		}
	}
	if id == s.d.Flipped && id.Class != "" {
		s.d.refused = s.d.s.now
		s.d.tell("flip")
		return &storage.Error{Op: op, ID: id, Err: errFlipped}
	}
	if s.d.FailReads {
		s.d.refused = s.d.s.now
		return &storage.Error{Op: op, ID: id, Err: errUnreadable}
	}
	return nil
}

func (s *diskStore) Get(ctx context.Context, id storage.ID, key string) ([]byte, error) {
	if err := s.read(ctx, "get", id, cmp.Or(id.Validate(), storage.ValidateKey(key))); err != nil {
		return nil, err
	}
	return s.d.image.Get(id, key), nil
}

func (s *diskStore) List(ctx context.Context, id storage.ID, r storage.Range) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		if err := s.read(ctx, "list", id, id.Validate()); err != nil {
			yield(storage.Entry{}, err)
			return
		}
		for _, e := range s.d.image.List(id, r) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *diskStore) Alarm(ctx context.Context, id storage.ID) (storage.Alarm, error) {
	if err := s.read(ctx, "alarm", id, id.Validate()); err != nil {
		return storage.Alarm{}, err
	}
	_, alarm := s.d.image.Head(id)
	return alarm, nil
}

func (s *diskStore) Due(ctx context.Context, after storage.Cursor, until time.Time, limit int) ([]storage.Due, error) {
	err := s.read(ctx, "due", storage.ID{}, nil)
	s.d.overdue = err != nil && ctx.Err() == nil
	if err != nil {
		return nil, err
	}
	return s.d.image.Due(after, until, limit), nil
}

func (s *diskStore) Objects(ctx context.Context, class, after string, limit int) ([]storage.ID, error) {
	if err := s.read(ctx, "objects", storage.ID{}, storage.ValidateClass(class)); err != nil {
		return nil, err
	}
	return s.d.image.Objects(class, after, limit), nil
}
