package front

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// posted is a request with a body of so many bytes, of unannounced length.
func posted(size int64) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/", io.LimitReader(zeros{}, size))
}

// bodies is a front for nothing but to read bodies.
func bodies(t *testing.T, o Options) *Front {
	t.Helper()
	o.Sessions, o.Server = sessionsFunc(accepting), "test"
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestALargeBodyIsReadAtAPace: each piece of it waits for its turn, with nothing taken for
// it. A small body waits for no large one.
func TestALargeBodyIsReadAtAPace(t *testing.T) {
	f := bodies(t, Options{})
	waits, turn := make(chan int64), make(chan error)
	f.pace = func(_ context.Context, bytes int) error {
		waits <- int64(bytes)
		return <-turn
	}
	read := make(chan *Refusal)
	large := func(size int64) {
		go func() {
			b, no := f.readBody(httptest.NewRecorder(), posted(size))
			if no == nil && int64(len(b.bytes)) != size {
				t.Errorf("%d bytes of %d are read", len(b.bytes), size)
			}
			b.release()
			read <- no
		}()
	}
	large(firstRead + 2*pieceSize - 1)
	for n := range int64(2) {
		if got := <-waits; got != pieceSize || f.bodies.Load() != firstRead+n*pieceSize {
			t.Errorf("piece %d: %d bytes wait for their turn, and %d are taken", n+1, got, f.bodies.Load())
		}
		small, no := f.readBody(httptest.NewRecorder(), posted(firstRead-1))
		if no != nil || len(small.bytes) != firstRead-1 {
			t.Errorf("a small body meanwhile: %v", no)
		}
		small.release()
		turn <- nil
	}
	if no := <-read; no != nil {
		t.Errorf("the large body: %v", no)
	}
	large(firstRead + 1)
	<-waits
	turn <- context.Canceled
	if no := <-read; no == nil || no.Status != http.StatusBadRequest {
		t.Errorf("a large body whose request ends before its turn: %v", no)
	}
	if n := f.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// TestSmallBodiesHaveRoomBesideLargeOnes: large bodies take three quarters of MaxBodies.
func TestSmallBodiesHaveRoomBesideLargeOnes(t *testing.T) {
	const most = 16 * pieceSize
	f := bodies(t, Options{MaxBody: most / 4, MaxBodies: most})
	for n := range 3 {
		if _, no := f.readBody(httptest.NewRecorder(), posted(most/4-1)); no != nil {
			t.Fatalf("large body %d of 3: %v", n+1, no)
		}
	}
	b, no := f.readBody(httptest.NewRecorder(), posted(firstRead+1))
	b.release()
	if no == nil || no.Status != http.StatusServiceUnavailable || !strings.Contains(no.Body.String(), "bodies") {
		t.Errorf("one more: %v", no)
	}
	for n := range 4 {
		if _, no := f.readBody(httptest.NewRecorder(), posted(firstRead-1)); no != nil {
			t.Errorf("small body %d of 4: %v", n+1, no)
		}
	}
	if _, no := f.readBody(httptest.NewRecorder(), posted(1)); no == nil || no.Status != http.StatusServiceUnavailable {
		t.Errorf("a small body beyond all: %v", no)
	}
}

// TestARefusedBodyTakesNoFreshMemory: what large bodies are read into is used again.
func TestARefusedBodyTakesNoFreshMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const most, times = 4 << 20, 16
	f := bodies(t, Options{MaxBody: most})
	f.pace = func(context.Context, int) error { return nil }
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		b, no := f.readBody(httptest.NewRecorder(), posted(most+1))
		if b.release(); no == nil || no.Status != http.StatusRequestEntityTooLarge {
			t.Fatalf("a body that is too large: %v", no)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > times*most/2 {
		t.Errorf("to refuse %d bodies of %d bytes took %d bytes", times, most, took)
	}
}

// TestSoManyPiecesAreKept: what a flood of large bodies has left is not kept beyond a
// bound.
func TestSoManyPiecesAreKept(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const most = 8
	p := pieces{most: most}
	known := map[*piece]bool{}
	for range 4 * most {
		known[p.take()] = true
	}
	for old := range known {
		p.giveBack(old)
	}
	again := 0
	for range 4 * most {
		if known[p.take()] {
			again++
		}
	}
	if again == 0 || again > most {
		t.Errorf("of %d pieces %d were kept, want some and at most %d", len(known), again, most)
	}
}
