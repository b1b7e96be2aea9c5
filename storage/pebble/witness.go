package pebble

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kalpahost/kalpa/storage"
)

// The engine takes the end of a log for what a crash has left of it, whatever it
// finds there: a log of random bytes is an empty one, and one that is gone was
// never there. It has no choice, since it knows nothing but the log. So the folder
// keeps a witness beside it. While the store is open: the boot number, which is the
// first thing that the boot has made durable, and how the manifest begins. From when
// it was closed in order: the length and the checksum of each log, of the manifest
// and of what points to it. What does not agree is refused.
//
// What remains unseen, after a crash alone: an end of the log or of the manifest that
// was synced and is gone, with nothing left behind it. It looks exactly as what was
// never written.
const witnessName = "kalpa-witness"

// witness is what is known of the files apart from themselves.
type witness struct {
	closed bool   // it was closed in order
	boot   uint32 // the last boot that was durable; 0: nothing is known
	files  []witnessed

	illegible bool // there is a file, and it says nothing
}

type witnessed struct {
	name string
	size int64
	sum  uint32
}

func (w witness) String() string {
	s := "open\n"
	if w.closed {
		s = "closed\n"
	}
	s += fmt.Sprintf("boot %d\n", w.boot)
	for _, f := range w.files {
		s += fmt.Sprintf("file %s %d %08x\n", f.name, f.size, f.sum)
	}
	return s
}

func parseWitness(text string) (w witness, ok bool) {
	for line := range strings.Lines(text) {
		switch word := strings.Fields(line); {
		case len(word) == 1 && word[0] == "open":
		case len(word) == 1 && word[0] == "closed":
			w.closed = true
		case len(word) == 2 && word[0] == "boot":
			n, err := strconv.ParseUint(word[1], 10, 32)
			if err != nil {
				return w, false
			}
			w.boot = uint32(n)
		case len(word) == 4 && word[0] == "file":
			size, err := strconv.ParseInt(word[2], 10, 64)
			sum, sumErr := strconv.ParseUint(word[3], 16, 32)
			if err != nil || sumErr != nil {
				return w, false
			}
			w.files = append(w.files, witnessed{word[1], size, uint32(sum)})
		default:
			return w, false
		}
	}
	return w, w.boot > 0
}

// witness reads what there is; the zero witness when there is none, or none that
// can be read: it is a second look at the store and not a part of it.
func (f *folder) witness() (witness, error) {
	file, err := f.fs.Open(f.fs.PathJoin(f.dir, witnessName))
	if isNotExist(err) {
		return witness{}, nil
	} else if err != nil {
		return witness{}, f.fail(err)
	}
	text, err := io.ReadAll(io.LimitReader(file, 1<<20))
	if err = errors.Join(err, file.Close()); err != nil {
		return witness{}, f.fail(err)
	}
	if w, ok := parseWitness(string(text)); ok {
		return w, nil
	}
	return witness{illegible: true}, nil
}

// compare reads the witness and fails when the files are not what it says.
func (f *folder) compare() (witness, error) {
	w, err := f.witness()
	if err != nil {
		return w, err
	}
	return w, f.differs(w)
}

func (f *folder) differs(w witness) error {
	for _, was := range w.files {
		what, err := f.difference(was, w.closed)
		if err != nil {
			return f.fail(err)
		}
		if what != "" {
			return f.damage(fmt.Errorf("the file %s %s", was.name, what))
		}
	}
	return nil
}

// difference says what became of a file; nothing, if it is what it was.
func (f *folder) difference(was witnessed, closed bool) (what string, err error) {
	limit := int64(math.MaxInt64)
	if !closed {
		limit = was.size // it has grown since
	}
	is, err := f.look(was.name, limit)
	switch {
	case isNotExist(err) && !closed && f.manifestAfter(was.name):
		return "", nil // it had grown large
	case isNotExist(err):
		return "is gone", nil
	case err != nil:
		return "", err
	case is.size != was.size:
		return fmt.Sprintf("has %d bytes, and had %d", is.size, was.size), nil
	case is.sum != was.sum:
		return "is not what it was: bytes in it have changed", nil
	}
	return "", nil
}

func (f *folder) damage(err error) *storage.Error {
	return &storage.Error{Op: "open", Path: f.dir, Err: fmt.Errorf("%w: %w", storage.ErrDamaged, err), Hint: damagedHint(f.dir)}
}

func damagedHint(dir string) string {
	return "nothing was changed; kalpa check --data " + dir + " says what is lost and what to do"
}

// damaged tells whether an error of the engine is about what it found in its files.
func damaged(err error) bool {
	return pebble.IsCorruptionError(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrNotExist) ||
		errors.Is(err, pebble.ErrDBNotPristine) || strings.Contains(err.Error(), "object size mismatch")
}

// manifestAfter tells whether there is a later manifest than the one named.
func (f *folder) manifestAfter(name string) bool {
	names, err := f.fs.List(f.dir)
	return err == nil && slices.ContainsFunc(names, func(n string) bool {
		return strings.HasPrefix(n, manifestPrefix) && (len(n) > len(name) || len(n) == len(name) && n > name)
	})
}

const manifestPrefix = "MANIFEST-" // and six digits or more

// look is a file as it is, up to limit bytes of it.
func (f *folder) look(name string, limit int64) (w witnessed, err error) {
	file, err := f.fs.Open(f.fs.PathJoin(f.dir, name))
	if err != nil {
		return w, err
	}
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.Copy(h, io.LimitReader(file, limit))
	return witnessed{name, n, h.Sum32()}, errors.Join(err, file.Close())
}

// opening is called before the engine changes anything.
func (f *folder) opening(was witness) error {
	if f.readOnly || was.boot == 0 {
		return nil
	}
	return f.bear(witness{boot: was.boot})
}

// putBack is called when the engine could not be opened: what was known stays known,
// unless the attempt has changed the files.
func (f *folder) putBack(was witness) error {
	if !f.readOnly && was.closed && f.differs(was) == nil {
		return f.bear(was)
	}
	return nil
}

// opened is called when a boot number is durable.
func (f *folder) opened(boot uint32) error {
	if f.readOnly {
		return nil
	}
	w, err := f.seen(witness{boot: boot}, func(name string) bool { return strings.HasPrefix(name, manifestPrefix) })
	if err != nil {
		return err
	}
	return f.write(witnessName, w.String())
}

// closed is called when the engine has been closed.
func (f *folder) closed(boot uint32) error {
	if f.readOnly {
		return nil
	}
	w, err := f.seen(witness{closed: true, boot: boot}, func(name string) bool {
		return strings.HasSuffix(name, ".log") || strings.HasPrefix(name, manifestPrefix) || strings.HasPrefix(name, "marker.")
	})
	if err != nil {
		return f.fail(err)
	}
	return f.bear(w)
}

// seen adds files as they are to a witness.
func (f *folder) seen(w witness, which func(name string) bool) (witness, error) {
	names, err := f.fs.List(f.dir)
	if err != nil {
		return w, err
	}
	slices.Sort(names)
	for _, name := range names {
		if !which(name) {
			continue
		}
		is, err := f.look(name, math.MaxInt64)
		if isNotExist(err) {
			continue // the engine has just removed it
		}
		if err != nil {
			return w, err
		}
		w.files = append(w.files, is)
	}
	return w, nil
}

func (f *folder) bear(w witness) error {
	if err := f.write(witnessName, w.String()); err != nil {
		return f.fail(err)
	}
	return nil
}

// checkBoot compares the boot row, as the engine has found it, with the witness.
func (b *backend) checkBoot(f *folder, was witness) error {
	boot, err := b.lastBoot()
	if err != nil {
		return f.engineFail(err)
	}
	if boot < was.boot {
		e := f.damage(fmt.Errorf("the log has lost what was acknowledged: the store had been opened %d times, and its rows know of %d", was.boot, boot))
		e.Hint = "restore a backup; to go on with what is left, remove " + f.fs.PathJoin(f.dir, witnessName)
		return e
	}
	return nil
}
