package pace

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mb = 1 << 20

func TestGOGC(t *testing.T) {
	for live, want := range map[uint64]int{0: 800, 4 * mb: 800, 8 * mb: 400, 16 * mb: 200, 32 * mb: 100, 33 * mb: 100, 1 << 40: 100} {
		if got := gogc(live); got != want {
			t.Errorf("with %d bytes live GOGC is %d, want %d", live, got, want)
		}
	}
}

// TestLook: each line is a look.
func TestLook(t *testing.T) {
	p := pacer{percent: 800}
	for i, at := range []struct {
		allocated, live, held uint64
		percent               int
		giveBack              bool
		why                   string
	}{
		{10 * mb, 4 * mb, 40 * mb, 800, false, "it begins"},
		{900 * mb, 8 * mb, 40 * mb, 400, false, "a load comes"},
		{1800 * mb, 9 * mb, 40 * mb, 400, false, "the live heap changes a little, and the pace does not"},
		{2700 * mb, 150 * mb, 320 * mb, 100, false, "it grows"},
		{2700 * mb, 150 * mb, 320 * mb, 100, false, "a pause"},
		{2800 * mb, 150 * mb, 320 * mb, 100, false, "is no rest"},
		{2800 * mb, 150 * mb, 320 * mb, 100, false, "a rest begins"},
		{2800*mb + 1, 150 * mb, 320 * mb, 100, true, "and is one"},
		{2800*mb + 2, 150 * mb, 180 * mb, 100, false, "what could not be given back is not asked for again"},
		{2801*mb + 2, 150 * mb, 180 * mb, 100, false, "something happens"},
		{2801*mb + 3, 150 * mb, 165 * mb, 100, false, "it rests again"},
		{2801*mb + 4, 150 * mb, 165 * mb, 100, false, "and there is next to nothing to give"},
		{2801*mb + 5, 150 * mb, 167 * mb, 100, true, "until there is"},
	} {
		percent, giveBack := p.look(reading{at.allocated, at.live, at.held})
		if percent != at.percent || giveBack != at.giveBack {
			t.Errorf("look %d, %s: GOGC %d, give back %v; want %d, %v", i, at.why, percent, giveBack, at.percent, at.giveBack)
		}
	}
}

func TestStart(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "50")
	Start()()
	t.Setenv("GOGC", "")
	stop := Start()
	stop()
	stop()
	if is := debug.SetGCPercent(77); is != 77 {
		t.Errorf("GOGC is %d when the pace is nobody's any more, and was 77", is)
	}
}

// TestRead: the runtime has all of what is read.
func TestRead(t *testing.T) {
	if r := read(); r.allocated == 0 || r.held == 0 {
		t.Errorf("read %+v", r)
	}
}
