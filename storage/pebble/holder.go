package pebble

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Holder is what the process that has a store open has noted in its folder. It
// proves nothing: the note of a process that is gone stays.
type Holder struct {
	PID     int
	Contact string // Options.Contact; empty: it can't be reached
}

func (h Holder) String() string {
	s := fmt.Sprintf("pid %d\n", h.PID)
	if h.Contact != "" {
		s += "contact " + h.Contact + "\n"
	}
	return s
}

// ReadHolder reads the note in a store's folder; the zero Holder when there is none.
func ReadHolder(dir string) Holder { return readHolder(vfs.Default, dir) }

func readHolder(fs vfs.FS, dir string) (h Holder) {
	file, err := fs.Open(fs.PathJoin(dir, holderName))
	if err != nil {
		return h
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, 1024))
	if err != nil {
		return h
	}
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "pid":
			h.PID, _ = strconv.Atoi(value)
		case "contact":
			h.Contact = value
		}
	}
	return h
}

// InUse tells whether a process has the store in a folder open.
func InUse(dir string) bool {
	lock, err := pebble.LockDirectory(dir, vfs.Default)
	if err != nil {
		return held(err)
	}
	_ = lock.Close() // nothing was written
	return false
}
