//go:build linux && (amd64 || arm64) && !race && !asan && !msan

package pace

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// mapping is a stretch of the process's addresses, with what the system says of it.
type mapping struct {
	from, to uintptr
	flags    []string
}

func mappings(t *testing.T) (all []mapping) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var m mapping
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &m.from, &m.to); n == 2 {
			all = append(all, m)
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok {
			all[len(all)-1].flags = strings.Fields(flags)
		}
	}
	return all
}

// asked is for how much of what lies between two addresses huge pages are asked for.
func asked(t *testing.T, from, to uintptr) (bytes uintptr) {
	t.Helper()
	for _, m := range mappings(t) {
		if from, to := max(m.from, from), min(m.to, to); from < to && slices.Contains(m.flags, "hg") {
			bytes += to - from
		}
	}
	return bytes
}

func mustMakeRoom(t *testing.T) *room {
	t.Helper()
	r := makeRoom(8 << 30)
	if r == nil {
		t.Skip("huge pages are not given to who asks for them here")
	}
	return r
}

// TestRoomIsWhereTheHeapGrows: it costs next to nothing, and what is allocated lies in it.
func TestRoomIsWhereTheHeapGrows(t *testing.T) {
	resident := func() (kb int) {
		debug.FreeOSMemory()
		b, _ := os.ReadFile("/proc/self/status")
		_, rest, _ := strings.Cut(string(b), "VmRSS:")
		_, _ = fmt.Sscan(rest, &kb)
		return kb
	}
	before, tables := resident(), asked(t, 0, math.MaxUint)
	r := mustMakeRoom(t)
	if more := asked(t, 0, math.MaxUint) - tables; more != 0 && debug.SetMemoryLimit(-1) == math.MaxInt64 { // with one it collects when it must
		t.Errorf("the runtime has asked for huge pages for %d bytes", more)
	}
	if grown := resident() - before; grown > 16<<10 {
		t.Errorf("it takes %d kB", grown)
	}
	var b strings.Builder   // which is not touched
	b.Grow(int(r.size) / 2) //nolint:gosec // it is bounded
	b.WriteByte(0)
	from := uintptr(unsafe.Pointer(unsafe.StringData(b.String())))
	to := from + r.size/2
	if in := int64(min(to, r.at+r.size)) - int64(max(from, r.at)); in < int64(r.size)/4 { //nolint:gosec // likewise
		t.Errorf("of %d bytes that are allocated %d lie in it", to-from, in)
	}
	runtime.KeepAlive(b.String())
}

// TestRoomIsAsked: all of it while the host is at work, and nothing of it otherwise.
func TestRoomIsAsked(t *testing.T) {
	r := mustMakeRoom(t)
	for _, huge := range []bool{true, true, false, true, false} {
		r.advise(huge)
		want := uintptr(0)
		if huge {
			want = r.size
		}
		if n := asked(t, r.at, r.at+r.size); n != want {
			t.Errorf("asked for %v, of %d of %d bytes", huge, n, r.size)
		}
	}
}

// TestPagesAreHugeAtWork, and no longer when it is over.
func TestPagesAreHugeAtWork(t *testing.T) {
	mustMakeRoom(t)
	before := asked(t, 0, math.MaxUint) // the runtime asks for some as well
	asked := func() bool { return asked(t, 0, math.MaxUint) > before }
	within := func(what string, work func(), there bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); asked() != there; {
			if time.Now().After(end) {
				t.Fatalf("%s: huge pages asked for: %v", what, !there)
			}
			work()
		}
	}
	var garbage []byte
	stop := Start(none, 8<<30)
	within("at work", func() { garbage = make([]byte, 4*mb); time.Sleep(10 * time.Millisecond) }, true)
	within("at rest", func() { time.Sleep(1200 * time.Millisecond) }, false)
	within("at work again", func() { garbage = make([]byte, 4*mb); time.Sleep(10 * time.Millisecond) }, true)
	stop()
	if runtime.KeepAlive(garbage); asked() {
		t.Error("it is over, and they are still asked for")
	}
}

func TestRoomSize(t *testing.T) {
	for memory, want := range map[int64]uintptr{0: 0, 1<<30 - 4: 0, 1 << 30: 256 * mb, 4 << 30: 1 << 30, 8 << 30: 2 << 30, 1 << 40: 2 << 30} {
		if got := roomSize(memory); got != want {
			t.Errorf("of %d bytes the room has %d, want %d", memory, got, want)
		}
	}
}

func TestSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "enabled")
	if says(file, "[madvise]") {
		t.Error("a file that is not there says it")
	}
	for text, want := range map[string]bool{
		"always [madvise] never\n": true, "[madvise]": true, "[always] madvise never\n": false, "x[madvise]": false, "": false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := says(file, "[madvise]"); got != want {
			t.Errorf("%q says it: %v", text, got)
		}
	}
}
