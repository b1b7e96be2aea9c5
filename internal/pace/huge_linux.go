//go:build linux && (amd64 || arm64) && !race && !asan && !msan

package pace

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// room is where the heap will grow: addresses that it was made to reserve, and that it
// uses from the lowest on. While the host is at work the system is asked for huge pages
// there, which it gives to who asks where transparent_hugepage is madvise. A session that
// is opened touches five pages that nothing has touched before, and each is a fault that
// takes microseconds on a virtual machine.
//
// At rest it is asked not to: it would fill up pages of which little is in use.
//
// All of that is advice. Where the heap comes to lie elsewhere it is as it was.
type room struct {
	at, size uintptr
	huge     bool
}

const (
	// mostRoom and leastRoom are the size of a room, in bytes: one holds 100,000 resident
	// sessions.
	mostRoom  = 2 << 30
	leastRoom = 256 << 20
	// behind is where the huge pages begin, in bytes: of a small heap, with its garbage, they
	// would leave a tenth unused.
	behind = 192 << 20
	// hugePage is the size of one, in bytes. Other machines have larger ones, of which a
	// heap would leave much unused.
	hugePage = 2 << 20

	thp = "/sys/kernel/mm/transparent_hugepage/"
)

// makeRoom has the heap reserve a room, by a string that is never written and is collected
// at once. No collection finds it alive, nor ends while there are none to be: it would take
// the heap for a large one, and put its tables on huge pages for good. Nil: there is nothing
// to be gained, or it could be refused, which a heap does not survive.
func makeRoom(memory int64) *room {
	size := roomSize(memory)
	if size == 0 || limited(unix.RLIMIT_AS) || limited(unix.RLIMIT_DATA) || !says(thp+"enabled", "[madvise]") || !says(thp+"hpage_pmd_size", "2097152") || says("/proc/sys/vm/overcommit_memory", "2") {
		return nil
	}
	runtime.GC() // so that none is under way
	was := debug.SetGCPercent(-1)
	var b strings.Builder // alone among what is allocated, it is not cleared
	b.Grow(int(size))     //nolint:gosec // it is bounded
	b.WriteByte(0)
	at := uintptr(unsafe.Pointer(unsafe.StringData(b.String())))
	b.Reset()
	debug.SetGCPercent(was)
	debug.FreeOSMemory()
	end := (at + size) &^ (hugePage - 1)
	at = (at + behind + hugePage - 1) &^ (hugePage - 1)
	return &room{at: at, size: end - at}
}

// roomSize is what can be spared of so much memory: a quarter.
func roomSize(memory int64) uintptr {
	if size := min(memory/4, mostRoom); size >= leastRoom {
		return uintptr(size)
	}
	return 0
}

func limited(resource int) bool {
	var is unix.Rlimit
	return unix.Getrlimit(resource, &is) != nil || is.Cur != unix.RLIM_INFINITY
}

// says reports whether one of the words of a file is that one.
func says(file, word string) bool {
	b, err := os.ReadFile(file)
	return err == nil && bytes.Contains(append(append([]byte(" "), bytes.TrimSpace(b)...), ' '), []byte(" "+word+" "))
}

// advise says whether the pages of the room should be huge ones from now on.
func (r *room) advise(huge bool) {
	if r == nil || r.huge == huge {
		return
	}
	advice := uintptr(unix.MADV_NOHUGEPAGE)
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	r.huge = huge // also where it is refused: so it would be again
	// By the number alone: nothing may point to where the heap has no object.
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, r.at, r.size, advice)
}
