package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/storage"
)

// The files in a store's folder that are not Pebble's own.
const (
	// markerName says that the folder is ours, and in which format. It is the
	// first file of a new store and is durable before any other is written.
	markerName = "kalpa-store"
	// holderName names the process that has the lock, for the error message of
	// the next one. It proves nothing: the lock does.
	holderName = "kalpa-holder"
	// pebbleLock is the file that Pebble locks.
	pebbleLock = "LOCK"
)

const categoryUnspecified = vfs.WriteCategoryUnspecified

var markerText = fmt.Sprintf("This folder is a kalpa store. Nothing else belongs here.\nformat %d\n", storage.FormatVersion)

// folder is a store's folder, locked by this process.
type folder struct {
	fs   vfs.FS
	dir  string
	lock *pebble.Lock
	// readOnly: the folder is there, and stays as it is.
	readOnly bool
	contact  string
}

// openFolder makes sure that dir is a store of ours, or makes it one, and locks
// it. A folder that is refused is left as it was.
func openFolder(o *Options) (*folder, error) {
	fs, dir := o.FS, o.Dir
	f := &folder{fs: fs, dir: dir, readOnly: o.ReadOnly, contact: o.Contact}
	names, err := f.list()
	if err != nil {
		return nil, err
	}
	if err := f.check(names); err != nil {
		return nil, err
	}
	if f.lock, err = pebble.LockDirectory(dir, fs); err != nil {
		return nil, f.lockError(err)
	}
	if err := f.settleIn(); err != nil {
		_ = f.close()
		return nil, err
	}
	return f, nil
}

// list returns what is in the folder, and creates it if it is not there.
func (f *folder) list() ([]string, error) {
	info, err := f.fs.Stat(f.dir)
	switch {
	case isNotExist(err) && f.readOnly:
		return nil, f.missing()
	case isNotExist(err):
		if err := f.create(); err != nil {
			return nil, f.fail(err)
		}
		return nil, nil
	case err != nil:
		return nil, f.fail(err)
	case !info.IsDir():
		return nil, &storage.Error{
			Op: "open", Path: f.dir, Err: fmt.Errorf("%w: it is a file", storage.ErrForeign),
			Hint: "name a folder for the data, or one that does not exist yet",
		}
	}
	names, err := f.fs.List(f.dir)
	if err != nil {
		return nil, f.fail(err)
	}
	return names, nil
}

// create makes the folder and what is missing above it, and makes both durable:
// an acknowledged write must not go away with the entry of its folder.
func (f *folder) create() error {
	first := f.dir // the topmost folder that is missing
	for parent := f.fs.PathDir(first); parent != first; parent = f.fs.PathDir(first) {
		if _, err := f.fs.Stat(parent); !isNotExist(err) {
			break
		}
		first = parent
	}
	if err := f.fs.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	for d := f.dir; ; d = f.fs.PathDir(d) {
		if err := syncDir(f.fs, f.fs.PathDir(d)); err != nil {
			return err
		}
		if d == first {
			return nil
		}
	}
}

// check refuses a folder that is not ours or that we are too old for.
func (f *folder) check(names []string) error {
	if !slices.Contains(names, markerName) {
		if slices.Contains(names, witnessName) {
			return f.damage(fmt.Errorf("the file %s is gone", markerName))
		}
		if f.readOnly {
			return f.missing()
		}
		for _, n := range names {
			// What a start leaves behind that ended before its marker was durable.
			if n != pebbleLock && n != markerName+".new" && n != holderName {
				return &storage.Error{
					Op: "open", Path: f.dir, Err: fmt.Errorf("%w: it holds %q and no %q", storage.ErrForeign, n, markerName),
					Hint: "nothing was changed; name an empty folder, or one that does not exist yet",
				}
			}
		}
		return nil
	}
	if slices.Contains(names, backupName) && !f.readOnly {
		return &storage.Error{
			Op: "open", Path: f.dir, Err: fmt.Errorf("%w: it is a backup of one", storage.ErrForeign),
			Hint: "kalpa restore " + f.dir + " --data FOLDER makes a store of it",
		}
	}
	version, err := f.version()
	if err != nil {
		return err
	}
	if version > storage.FormatVersion {
		return f.newer(fmt.Sprintf("format %d, and this kalpa knows %d", version, storage.FormatVersion))
	}
	desc, err := pebble.Peek(f.dir, f.fs)
	if err != nil {
		if strings.Contains(err.Error(), "unknown format major version") {
			return f.newer(err.Error())
		}
		return f.engineFail(err)
	}
	if !desc.Exists && hasHistory(names) {
		// The engine would take the store for a new one, and delete its tables.
		return f.damage(errors.New("the file marker.manifest.*, which names the manifest, is gone"))
	}
	if desc.FormatMajorVersion > pebble.FormatNewest {
		return f.newer(fmt.Sprintf("engine format %d, and this kalpa knows %d", desc.FormatMajorVersion, pebble.FormatNewest))
	}
	return nil
}

// hasHistory tells from the names of a store's files whether it has ever been open: a first
// start that was cut off leaves no witness, and no table.
func hasHistory(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return n == witnessName || strings.HasSuffix(n, ".sst") })
}

func (f *folder) newer(what string) error {
	return &storage.Error{
		Op: "open", Path: f.dir, Err: fmt.Errorf("%w: %s", storage.ErrNewerFormat, what),
		Hint: "nothing was changed; use the newer kalpa that wrote it",
	}
}

// version reads the marker: lines of "name value", of which "format" is one.
func (f *folder) version() (int, error) {
	path := f.fs.PathJoin(f.dir, markerName)
	file, err := f.fs.Open(path)
	if err != nil {
		return 0, f.fail(err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil {
		return 0, f.fail(err)
	}
	for line := range bytes.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok && name == "format" {
			if n, err := strconv.Atoi(value); err == nil && n > 0 {
				return n, nil
			}
		}
	}
	return 0, &storage.Error{
		Op: "open", Path: path, Err: fmt.Errorf("%w: the marker is not readable", storage.ErrForeign),
		Hint: "nothing was changed; the file should have a line \"format " + strconv.Itoa(storage.FormatVersion) + "\"",
	}
}

// settleIn writes what a folder needs once it is locked. Another process may
// have had the lock since the folder was looked at, so it is looked at again.
func (f *folder) settleIn() error {
	names, err := f.list()
	if err != nil {
		return err
	}
	if err := f.check(names); err != nil {
		return err
	}
	if err := f.sweepCheckpoints(names); err != nil {
		return f.fail(err)
	}
	if !slices.Contains(names, markerName) {
		if err := f.write(markerName, markerText); err != nil {
			return f.fail(err)
		}
	}
	if err := f.write(holderName, Holder{os.Getpid(), f.contact}.String()); err != nil && !f.readOnly {
		return f.fail(err)
	}
	return nil
}

// write replaces a small file, durably.
func (f *folder) write(name, text string) error {
	path := f.fs.PathJoin(f.dir, name)
	file, err := f.fs.Create(path+".new", categoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write([]byte(text))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := f.fs.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(f.fs, f.dir)
}

// mark makes a file be there or not, durably.
func (f *folder) mark(name string, there bool) error {
	switch {
	case there == f.has(name):
		return nil
	case there:
		return f.write(name, "")
	}
	if err := f.fs.Remove(f.fs.PathJoin(f.dir, name)); err != nil {
		return err
	}
	return syncDir(f.fs, f.dir)
}

func (f *folder) has(name string) bool {
	_, err := f.fs.Stat(f.fs.PathJoin(f.dir, name))
	return err == nil
}

func (f *folder) close() error {
	return f.lock.Close()
}

func (f *folder) lockError(err error) error {
	if !held(err) {
		return f.fail(err)
	}
	who := "another process"
	if h := readHolder(f.fs, f.dir); h.PID != 0 {
		who = fmt.Sprintf("another kalpa, pid %d", h.PID)
	}
	return &storage.Error{
		Op: "open", Path: f.dir, Err: fmt.Errorf("%w: %s", storage.ErrLocked, who),
		Hint: "stop it, or give this one a data folder of its own",
	}
}

// held tells whether a lock could not be had because somebody has it. The lock itself
// fails with a bare errno; opening its file, with a PathError.
func held(err error) bool {
	var opening *os.PathError
	return !errors.As(err, &opening) && (errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES)) ||
		strings.Contains(err.Error(), "lock held by current process")
}

// fail explains an error of the file system.
func (f *folder) fail(err error) error {
	if readOnly(err) {
		return &storage.Error{
			Op: "open", Path: f.dir, Err: fmt.Errorf("%w: %w", storage.ErrReadOnly, err),
			Hint: "check who owns the folder, and whether its file system is mounted read-only",
		}
	}
	e := &storage.Error{Op: "open", Path: f.dir, Err: err}
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		e.Err = fmt.Errorf("%w: %w", storage.ErrForeign, err)
		e.Hint = "a part of the path is a file"
	case errors.Is(err, syscall.ENOSPC):
		e.Hint = "the disk is full"
	}
	return e
}

// engineFail explains an error of the engine about the folder's files.
func (f *folder) engineFail(err error) error {
	if damaged(err) {
		return f.damage(legible{err})
	}
	return f.fail(err)
}

// legible is an error of the engine for people: without the line that stands for what the
// engine tells itself of the damage.
type legible struct{ error }

func (l legible) Error() string {
	return strings.ReplaceAll(l.error.Error(), "\n<corruption detail carrier>", "")
}

func (l legible) Unwrap() error { return l.error }

// missing is the error for who wants to look at a store that is not there.
func (f *folder) missing() error {
	return &storage.Error{Op: "open", Path: f.dir, Err: storage.ErrNoStore, Hint: "name the data folder of a host; kalpa serve makes a new one"}
}

func readOnly(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, os.ErrPermission)
}

func isNotExist(err error) bool { return errors.Is(err, os.ErrNotExist) }

func syncDir(fs vfs.FS, dir string) error {
	if dir == "" {
		dir = "."
	}
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// absolute is the folder as error messages name it.
func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}
