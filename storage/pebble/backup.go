package pebble

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kalpahost/kalpa/storage"
)

const (
	// backupName is the file that makes a folder a backup: what it is of, and the
	// checksum of every other file. It is the last one that is written.
	backupName = "kalpa-backup"
	// checkpointPrefix begins the name of the folder, within the data folder, that a
	// backup is made from: hard links to the store's tables, and a copy of the rest.
	checkpointPrefix = "kalpa-checkpoint-"
)

// Backup says what a backup is of.
type Backup struct {
	Taken  time.Time    `json:"taken"`
	Data   string       `json:"data"` // the folder of the store, on the machine that it was taken on
	Format int          `json:"format"`
	Boot   uint32       `json:"boot"`
	Files  []BackupFile `json:"files"`
}

// BackupFile is one file of a backup.
type BackupFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Size is what the files hold, in bytes.
func (b *Backup) Size() (n int64) {
	for _, f := range b.Files {
		n += f.Size
	}
	return n
}

// Backup writes the store as it is between two commits, as a tar archive, while it is
// used. All that was acknowledged before the call is in it. Commits wait while the
// moment is held, which takes a few synced files and no copying of tables.
func (s *Store) Backup(ctx context.Context, w io.Writer) (*Backup, error) {
	if err := s.begin(ctx, "backup", storage.ID{}, nil); err != nil {
		return nil, err
	}
	defer s.reads.leave()
	b, err := s.backup(ctx, w)
	if err != nil {
		return nil, &storage.Error{Op: "backup", Path: s.folder.dir, Err: err}
	}
	return b, nil
}

func (s *Store) backup(ctx context.Context, w io.Writer) (*Backup, error) {
	fs := s.folder.fs
	dir := fs.PathJoin(s.folder.dir, checkpointPrefix+fmt.Sprint(s.checkpoints.Add(1)))
	defer func() { _ = fs.RemoveAll(dir) }()
	taken, err := s.checkpoint(dir)
	if err != nil {
		return nil, err
	}
	b := &Backup{Taken: taken, Data: s.folder.dir, Format: storage.FormatVersion, Boot: s.backend.boot}
	// The witness of the copy: a host that opens it looks whether it is whole.
	copied := &folder{fs: fs, dir: dir}
	if err := errors.Join(copied.write(markerName, markerText), copied.closed(b.Boot)); err != nil {
		return nil, err
	}
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	out := tar.NewWriter(w)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil {
			err = out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: b.Taken, Format: tar.FormatPAX})
		}
		sum := sha256.New()
		if err == nil {
			_, err = io.Copy(io.MultiWriter(out, sum), f)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		b.Files = append(b.Files, BackupFile{name, info.Size(), hex.EncodeToString(sum.Sum(nil))})
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := out.WriteHeader(&tar.Header{Name: backupName, Mode: 0o600, Size: int64(len(text)), ModTime: b.Taken, Format: tar.FormatPAX}); err != nil {
		return nil, err
	}
	if _, err := out.Write(text); err != nil {
		return nil, err
	}
	return b, out.Close()
}

// checkpoint makes a copy of the store between two commits. The engine copies its
// log while it is written to, and log files are used again: without a pause, a part
// of the copy that is read later could be newer than one that was read before, which
// looks like damage when it is opened.
func (s *Store) checkpoint(dir string) (time.Time, error) {
	if !s.backend.readOnly {
		if err := s.db.Flush(); err != nil { // what is flushed need not be copied in the pause
			return time.Time{}, err
		}
	}
	s.backend.writing.Lock()
	defer s.backend.writing.Unlock()
	var options []pebble.CheckpointOption
	if !s.backend.readOnly {
		options = append(options, pebble.WithFlushedWAL())
	}
	return time.Now().UTC().Round(time.Millisecond), s.db.Checkpoint(dir, options...)
}

// sweepCheckpoints removes what a process has left that ended within a backup.
func (f *folder) sweepCheckpoints(names []string) error {
	for _, name := range names {
		if !strings.HasPrefix(name, checkpointPrefix) || f.readOnly {
			continue
		}
		if err := f.fs.RemoveAll(f.fs.PathJoin(f.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoBackup: what is to be restored is no whole backup.
var ErrNoBackup = errors.New("not a whole backup")

// Unpack writes the archive that Backup makes into a folder that is not there yet.
// The folder is there when all of it is durable, and not before.
func Unpack(r io.Reader, dir string) (*Backup, error) {
	fail := func(err error) (*Backup, error) { return nil, &storage.Error{Op: "backup", Path: dir, Err: err} }
	if err := vacant(dir); err != nil {
		return nil, &storage.Error{Op: "backup", Path: dir, Err: err, Hint: "nothing was written; name a folder that is empty or does not exist yet"}
	}
	partial, err := beside(dir)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(partial) }() // gone when it has been renamed
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fail(fmt.Errorf("%w: %w", ErrNoBackup, err))
		}
		if h.Typeflag != tar.TypeReg || h.Name != filepath.Base(h.Name) || strings.HasPrefix(h.Name, ".") {
			return fail(fmt.Errorf("%w: it holds %q", ErrNoBackup, h.Name))
		}
		if err := writeFile(filepath.Join(partial, h.Name), in, nil); err != nil {
			return fail(err)
		}
	}
	b, err := Verify(partial)
	if err != nil {
		return fail(err)
	}
	if err := settle(partial, dir); err != nil {
		return fail(err)
	}
	return b, nil
}

// Verify reads a backup's folder and compares every file with its checksum.
func Verify(dir string) (*Backup, error) {
	b, err := backupOf(dir)
	if err != nil {
		return nil, err
	}
	for _, want := range b.Files {
		if err := copyFile(filepath.Join(dir, want.Name), "", want); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func backupOf(dir string) (*Backup, error) {
	text, err := os.ReadFile(filepath.Join(dir, backupName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no %s in %s", ErrNoBackup, backupName, dir)
	} else if err != nil {
		return nil, err
	}
	b := &Backup{}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoBackup, backupName, err)
	}
	if b.Format > storage.FormatVersion {
		return nil, fmt.Errorf("%w: format %d, and this kalpa knows %d", storage.ErrNewerFormat, b.Format, storage.FormatVersion)
	}
	for _, f := range b.Files {
		if f.Name != filepath.Base(f.Name) {
			return nil, fmt.Errorf("%w: it names the file %q", ErrNoBackup, f.Name)
		}
	}
	return b, nil
}

// restoredBoots is how far the boot numbers of a restored store are ahead of the
// backup's. The original may have been started again since, with the numbers that
// come next: an epoch, or the id of an event, that a client holds of one of the two
// must not be one of the other's.
const restoredBoots = 1000

// Restore makes a store of a backup, in a folder that is empty or not there. The
// folder has it when all of it has been compared with its checksums and is durable,
// and not before.
func Restore(backup, dir string) (*Backup, error) {
	fail := func(err error) (*Backup, error) { return nil, &storage.Error{Op: "restore", Path: dir, Err: err} }
	if err := vacant(dir); err != nil {
		return fail(err)
	}
	b, err := backupOf(backup)
	if err != nil {
		return fail(err)
	}
	partial, err := beside(dir)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(partial) }()
	for _, want := range b.Files {
		if err := copyFile(filepath.Join(backup, want.Name), filepath.Join(partial, want.Name), want); err != nil {
			return fail(err)
		}
	}
	if err := setBoot(partial, b.Boot+restoredBoots); err != nil {
		return fail(err)
	}
	if err := settle(partial, dir); err != nil {
		return fail(err)
	}
	return b, nil
}

// setBoot makes a store go on with a later boot number.
func setBoot(dir string, boot uint32) error {
	if boot > storage.MaxBoot {
		return storage.ErrBootsExhausted
	}
	o := Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)}
	o.fill()
	f, err := openFolder(&o)
	if err != nil {
		return err
	}
	b := &backend{fail: func(error) {}}
	opts := engineOptions(o, f, b)
	if b.db, err = pebble.Open(dir, opts); err != nil {
		return errors.Join(f.engineFail(err), f.close())
	}
	err = b.setBoot(boot)
	if err = errors.Join(err, b.db.Close()); err == nil {
		err = f.closed(boot)
	}
	return errors.Join(err, f.close())
}

// vacant refuses a folder that has something in it.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("the folder is not empty: it holds %q", entries[0].Name())
	}
	return nil
}

// beside makes an empty folder for what will become dir by a rename.
func beside(dir string) (string, error) {
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, filepath.Base(dir)+".partial-")
}

// settle makes a folder durable, and then makes it be dir.
func settle(partial, dir string) error {
	if err := syncFolder(partial); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // one that is empty, and no other
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(filepath.Clean(dir)))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// copyFile compares a file with what a backup says of it, and writes it to a path;
// an empty path: nowhere.
func copyFile(from, to string, want BackupFile) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: the file %s is gone", ErrNoBackup, want.Name)
	} else if err != nil {
		return err
	}
	sum := sha256.New()
	if to == "" {
		_, err = io.Copy(sum, in)
	} else {
		err = writeFile(to, in, sum)
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != want.SHA256 {
		return fmt.Errorf("%w: the file %s is not what was backed up: its checksum differs", ErrNoBackup, want.Name)
	}
	return nil
}

// writeFile writes a new file, durably; sum gets a copy if it is not nil.
func writeFile(path string, in io.Reader, sum io.Writer) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	var w io.Writer = out
	if sum != nil {
		w = io.MultiWriter(out, sum)
	}
	_, err = io.Copy(w, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
