package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.opentelemetry.io/otel/metric"

	"github.com/kalpahost/kalpa/storage"
)

// Sizes. Pebble's own are small: with its 4 MB memtable, 16 writers that do not
// wait stall for two seconds at a time.
const (
	// memTableSize is what the memtables grow to; the first one has 256 KB. There are
	// usualMemTables of them, one that is written to and one that is flushed or kept for
	// the next time, and up to memTables when the disk does not keep up.
	memTableSize   = 32 << 20
	usualMemTables = 2
	memTables      = 4

	// DefaultCacheSize is the block cache's bound. It is filled by reads, and by the
	// scans of a start.
	DefaultCacheSize = 32 << 20

	// bloomBits costs ten bits a row, and answers most reads of a row that is not
	// there (a new object's fence row, a key that was never set) without the disk.
	bloomBits = 10
)

// Options configure a Store. Dir is required.
type Options struct {
	// Dir is the data folder. It is created if it is not there.
	Dir string
	// FS is the file system; nil means the operating system's.
	FS vfs.FS
	// Durability is Sync unless it is set.
	Durability storage.Durability
	// Logger gets what an operator should know; the engine's own chatter goes to
	// its debug level. Nil means slog.Default.
	Logger *slog.Logger
	// MeterProvider takes the store's figures, for as long as it lives. Nil: nobody
	// does.
	MeterProvider metric.MeterProvider
	// Fatal is called once, with the error that makes it impossible to go on. It
	// must end the process. Nil means to log the error and exit with status 1.
	Fatal func(error)
	// CacheSize bounds the block cache once the memtables have grown, in bytes; 0 means
	// DefaultCacheSize. Before that, blocks may have the memtables' room as well.
	CacheSize int64
	// ReadOnly opens a store that is there for looking at it: nothing in the folder is
	// changed, but for the note of who holds it. Who writes to it ends by Fatal.
	ReadOnly bool
	// Contact is how others reach the process that has the store open: it is noted in
	// the folder, for ReadHolder.
	Contact string
	// Committer has the bounds of the queue and of groups. Its Fatal is not used.
	Committer storage.CommitterOptions

	unwitnessed bool                  // it is opened whatever the witness says
	tune        func(*pebble.Options) // by tests, which set it
}

func (o *Options) fill() {
	if o.FS == nil {
		o.FS = vfs.Default
		o.Dir = absolute(o.Dir)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Fatal == nil {
		log := o.Logger
		o.Fatal = func(err error) {
			log.Error("the store failed; ending the process, so that nothing is acknowledged that may be lost", "err", err)
			os.Exit(1)
		}
	}
	if o.CacheSize <= 0 {
		o.CacheSize = DefaultCacheSize
	}
}

// Store implements storage.Store. Claims, batches and releases go through the
// Committer; reads go to the engine at once.
type Store struct {
	*storage.Committer
	db      *pebble.DB
	folder  *folder
	backend *backend
	reads   gate
	aside   aside
	pending *pending
	// checkpoints counts the backups of this process.
	checkpoints atomic.Int64
	tables      struct {
		count   int
		bytes   int64
		damaged [][]byte // where they end, in order
	} // that were inspected
	watch *watch // nil where the file system is not the operating system's
}

var _ storage.Store = (*Store)(nil)

// Open opens the store in a folder, or makes a new one. It fails with an error
// that wraps storage.ErrLocked, ErrForeign, ErrNewerFormat or ErrReadOnly where
// the folder is the reason.
func Open(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, &storage.Error{Op: "open", Err: fmt.Errorf("%w: no data folder is named", storage.ErrInvalid)}
	}
	o.fill()
	f, err := openFolder(&o)
	if err != nil {
		return nil, err
	}
	s, err := open(o, f)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	if o.MeterProvider != nil {
		if err := s.instrument(o.MeterProvider); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func open(o Options, f *folder) (_ *Store, err error) {
	// Where the engine would end the process, opening it fails.
	b := &backend{durability: o.Durability, readOnly: o.ReadOnly, fail: func(error) {}}
	defer func() {
		if p := recover(); p != nil {
			err = f.engineFail(gaveUp(p))
		}
	}()
	var was witness
	if !o.unwitnessed {
		if was, err = f.compare(); err != nil {
			return nil, err
		}
	}
	if o.Durability == storage.Relaxed && !o.ReadOnly {
		if err := f.mark(relaxedName, true); err != nil {
			return nil, f.fail(err)
		}
	}
	opts := engineOptions(o, f, b)
	// The engine charges memtables to the cache. While there are more of them than usual
	// they take the room of blocks: the memory of both has one bound.
	cache := pebble.NewCache(o.CacheSize + usualMemTables*int64(opts.MemTableSize)) //nolint:gosec // it is ours
	defer cache.Unref()
	opts.Cache = cache
	if err := f.opening(was); err != nil {
		return nil, err
	}
	b.db, err = openTorn(f, opts, func(cut string, err error) {
		o.Logger.Warn("a power cut took the end of the history, as durability relaxed allows", "dir", f.dir, "cut", cut, "err", err)
	})
	if err != nil {
		return nil, errors.Join(f.engineFail(err), f.putBack(was))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.db.Close())
		}
	}()
	err = b.checkFormat(f)
	if err == nil {
		err = b.checkBoot(f, was)
	}
	if b.unnumbered = o.unwitnessed && errors.Is(err, storage.ErrDamaged); err != nil && !b.unnumbered {
		return nil, err
	}
	if o.Durability != storage.Relaxed && !o.ReadOnly {
		// The engine has replayed the old log and will not need it again.
		if err := f.mark(relaxedName, false); err != nil {
			return nil, f.fail(err)
		}
	}
	co := o.Committer
	co.Fatal = func(err error) {
		if e, ok := errors.AsType[*storage.Error](err); ok {
			e.Path = f.dir
		}
		o.Fatal(err)
	}
	c, err := storage.NewCommitter(b, co)
	if err != nil {
		return nil, f.fail(err)
	}
	if err := f.opened(b.boot); err != nil {
		return nil, errors.Join(f.fail(err), c.Close())
	}
	pending := countPending(b.db) // nothing has been committed yet
	b.failWith(c.Fail)
	s := &Store{Committer: c, db: b.db, folder: f, backend: b, reads: newGate(), aside: aside{log: o.Logger}, pending: pending}
	if o.FS == vfs.Default {
		if s.watch, err = watchFolder(f.dir, c.Fail); err != nil {
			pending.stop()
			return nil, f.fail(errors.Join(err, c.Close()))
		}
	}
	return s, nil
}

func engineOptions(o Options, f *folder, b *backend) *pebble.Options {
	log := engineLog{log: o.Logger, fail: b.failed}
	c := newCompactions()
	opts := &pebble.Options{
		FS:                          o.FS,
		Lock:                        f.lock,
		Logger:                      log,
		EventListener:               events(o.Logger, log, c.failed),
		ReadOnly:                    o.ReadOnly,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: memTables,
		// Compactions must not take all cores from the objects.
		CompactionConcurrencyRange: func() (int, int) { return 1, max(1, runtime.GOMAXPROCS(0)/2) },
		// Spread the writing of tables, so that it does not delay the log's fsync.
		BytesPerSync: 1 << 20,
	}
	opts.Experimental.CompactionScheduler = c
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
	}
	if o.tune != nil {
		o.tune(opts)
	}
	if o.Durability != storage.Relaxed && !o.ReadOnly {
		opts.FS = overZeros(opts.FS, f.dir)
	}
	if ms := o.Committer.Seams.SlowSync; ms > 0 {
		opts.FS = slowFS{opts.FS, time.Duration(ms) * time.Millisecond} //nolint:gosec // a few
	}
	if o.Durability == storage.Relaxed {
		opts.FS = relaxedFS{opts.FS}
	}
	opts.WithFSDefaults()
	return opts
}

// checkFormat reads the version of the key layout, and writes it into a new store.
func (b *backend) checkFormat(f *folder) error {
	v, err := b.get(storage.FormatKey)
	switch {
	case err != nil:
		return f.engineFail(err)
	case v == nil && b.readOnly:
	case v == nil:
		v := binary.BigEndian.AppendUint32(nil, storage.FormatVersion)
		if err := b.db.Set(storage.FormatKey, v, pebble.Sync); err != nil {
			return f.fail(err)
		}
	case len(v) != 4:
		return f.fail(fmt.Errorf("a malformed format row %x", v))
	case binary.BigEndian.Uint32(v) > storage.FormatVersion:
		return f.newer(fmt.Sprintf("key layout %d, and this kalpa knows %d", binary.BigEndian.Uint32(v), storage.FormatVersion))
	}
	return nil
}

// Close implements storage.Store. It waits for reads that are under way; those
// that begin later fail.
func (s *Store) Close() error {
	s.watch.stop()
	s.pending.stop()
	if err := s.Committer.Close(); errors.Is(err, storage.ErrClosed) {
		return err
	} else if err != nil {
		// After a failure the engine's own shutdown may block or panic; the
		// process is about to end.
		return err
	}
	s.reads.close()
	err := s.db.Close()
	if err == nil && !s.folder.readOnly {
		err = s.folder.mark(relaxedName, false) // the log was synced as it was closed
	}
	if err == nil {
		err = s.folder.closed(s.backend.boot)
	}
	return errors.Join(err, s.folder.close())
}

// Metrics are the engine's, for a process that exports them.
func (s *Store) Metrics() (m *pebble.Metrics, err error) {
	if err := s.begin(context.Background(), "metrics", storage.ID{}, nil); err != nil {
		return nil, err
	}
	defer s.reads.leave()
	return s.db.Metrics(), nil
}
