package pace

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mb = 1 << 20

func none() int64 { return 0 }

func TestGOGC(t *testing.T) {
	for live, want := range map[uint64]int{0: 800, 4 * mb: 800, 8 * mb: 400, 16 * mb: 200, 32 * mb: 130, 33 * mb: 130, 1 << 40: 130} {
		if got := gogc(live, true); got != want {
			t.Errorf("with %d bytes live GOGC is %d, want %d", live, got, want)
		}
	}
	for live, want := range map[uint64]int{0: 200, 4 * mb: 200, 8 * mb: 100, 16 * mb: 70, 20 * mb: 70, 21 * mb: 130, 1 << 40: 130} {
		if got := gogc(live, false); got != want {
			t.Errorf("with %d bytes live in a heap that grows GOGC is %d, want %d", live, got, want)
		}
	}
}

// TestLook: each line is a look.
func TestLook(t *testing.T) {
	p := pacer{percent: 200}
	for i, at := range []struct {
		allocated, live, held uint64
		percent               int
		giveBack              bool
		why                   string
	}{
		{10 * mb, 2 * mb, 4 * mb, 200, false, "it begins"},
		{60 * mb, 8 * mb, 16 * mb, 100, false, "a load comes, and the heap grows with it"},
		{110 * mb, 9 * mb, 17 * mb, 355, false, "and then it does not"},
		{150 * mb, 9 * mb, 35 * mb, 355, false, "no collection says anything new"},
		{200 * mb, 8 * mb, 40 * mb, 355, false, "the live heap changes a little, and the pace does not"},
		{205 * mb, 9 * mb, 40 * mb, 355, false, "it has been that much before"},
		{300 * mb, 20 * mb, 40 * mb, 70, false, "sessions are opened"},
		{400 * mb, 30 * mb, 60 * mb, 130, false, "more of them"},
		{500 * mb, 20 * mb, 60 * mb, 130, false, "they go"},
		{510 * mb, 24 * mb, 60 * mb, 130, false, "and come again: there are places for them"},
		{2800 * mb, 180 * mb, 320 * mb, 130, false, "a large load"},
		{2800 * mb, 180 * mb, 320 * mb, 130, false, "a pause"},
		{2900 * mb, 150 * mb, 320 * mb, 130, false, "is no rest"},
		{2900 * mb, 150 * mb, 320 * mb, 130, false, "a rest begins"},
		{2900*mb + 1, 150 * mb, 320 * mb, 130, true, "and is one"},
		{2900*mb + 2, 150 * mb, 180 * mb, 130, false, "what could not be given back is not asked for again"},
		{2902 * mb, 150 * mb, 180 * mb, 130, false, "something happens"},
		{2902*mb + 1, 150 * mb, 165 * mb, 130, false, "it rests again"},
		{2902*mb + 2, 150 * mb, 165 * mb, 130, false, "and there is next to nothing to give"},
		{2902*mb + 3, 150 * mb, 167 * mb, 130, true, "until there is"},
		{3100 * mb, 8 * mb, 24 * mb, 400, false, "nearly all of it is gone"},
		{3100*mb + 1, 8 * mb, 9 * mb, 400, false, "a pause"},
		{3100*mb + 2, 8 * mb, 9 * mb, 100, false, "at rest, what comes next may stay"},
		{3100*mb + 3, 8 * mb, 11 * mb, 100, true, "of a small heap less is worth it"},
		{3150 * mb, 16 * mb, 19 * mb, 70, false, "sessions are opened"},
		{3150*mb + 1, 16 * mb, 19 * mb, 70, false, "and rest"},
		{3150*mb + 2, 16 * mb, 19 * mb, 70, true, "three of nineteen are worth it"},
	} {
		percent, giveBack := p.look(reading{at.allocated, at.live, at.held, 0})
		if percent != at.percent || giveBack != at.giveBack {
			t.Errorf("look %d, %s: GOGC %d, give back %v; want %d, %v", i, at.why, percent, giveBack, at.percent, at.giveBack)
		}
	}
}

// TestBegin: what was allocated before is no load.
func TestBegin(t *testing.T) {
	p := begin(200, reading{allocated: 2048 * mb, live: mb / 10})
	if percent, _ := p.look(reading{allocated: 2088 * mb, live: 8 * mb, held: 16 * mb}); percent != gogc(8*mb, false) {
		t.Errorf("a load that leaves 8 of 40 MB begins, and GOGC is %d", percent)
	}
}

func TestStart(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "50")
	Start(none, 0)()
	t.Setenv("GOGC", "")
	stop := Start(none, 0)
	stop()
	stop()
	if is := debug.SetGCPercent(77); is != 77 {
		t.Errorf("GOGC is %d when the pace is nobody's any more, and was 77", is)
	}
}

// TestRead: the runtime has all of what is read.
func TestRead(t *testing.T) {
	if r := read(none); r.allocated == 0 || r.held == 0 {
		t.Errorf("read %+v", r)
	}
}

// What was evicted counts as live until the next collection, and an eviction allocates
// next to nothing: without knowing of it the host would keep what a crowd has left.
func TestWhatIsEvictedIsGivenBack(t *testing.T) {
	p := pacer{percent: 130}
	for i, at := range []struct {
		live, held, evicted uint64
		giveBack            bool
		why                 string
	}{
		{170 * mb, 360 * mb, 0, false, "a crowd has come"},
		{170 * mb, 360 * mb, 0, false, "and comes to rest"},
		{170 * mb, 360 * mb, 0, true, "its garbage goes"},
		{172 * mb, 174 * mb, 0, false, "what is left is live"},
		{172 * mb, 175 * mb, 30_000, false, "it is evicted"},
		{172 * mb, 175 * mb, 50_000, false, "to its end"},
		{172 * mb, 175 * mb, 50_000, true, "and goes"},
		{172 * mb, 175 * mb, 50_000, false, "and given back once"},
		{120 * mb, 121 * mb, 50_000, false, "which is seen"},
		{120 * mb, 121 * mb, 51_000, false, "of a few more it is not worth it"},
		{120 * mb, 121 * mb, 54_000, false, "until there are many"},
		{120 * mb, 121 * mb, 54_000, true, "and no more are about to go"},
		{100 * mb, 101 * mb, 54_000, false, "that is all"},
		{100 * mb, 101 * mb, 54_000, false, "and stays so"},
		{100 * mb, 101 * mb, 60_000, false, "many more"},
		{100 * mb, 101 * mb, 60_001, true, "and then one now and then"},
		{100 * mb, 101 * mb, 60_002, false, "which is not worth it again"},
	} {
		if _, giveBack := p.look(reading{allocated: 10*mb + uint64(i), live: at.live, held: at.held, evicted: at.evicted}); giveBack != at.giveBack {
			t.Errorf("look %d, %s: give back %v, want %v", i, at.why, giveBack, at.giveBack)
		}
	}
}
