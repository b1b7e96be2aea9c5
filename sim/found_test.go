package sim

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
)

// What rests leaves memory also when the wall clock was put back.
func TestRestIsMeasuredByTheMonotonicClock(t *testing.T) {
	s := NewScheduler(1, begin)
	d, p := NewDisk(s), s.NewProcess()
	class := actor.Define("thing", func(context.Context, *actor.State) (*struct{}, error) { return &struct{}{}, nil })
	touch := actor.Method(class, "touch", func(*struct{}, context.Context, int) (int, error) { return 0, nil })
	var h *actor.Host
	p.Go(func() {
		store, err := d.Open(p)
		if err == nil {
			h, err = actor.NewHost(actor.Options{
				Store: store, Clock: p, Runner: p, EvictAfter: 10 * time.Second, Dispatcher: p, Random: s.Rand("host"),
			})
		}
		if err == nil {
			class.Register(h)
			err = h.Start()
		}
		if err == nil {
			_, err = touch.Do(context.Background(), h.Stub(class.ID("a")), 0)
		}
		if err != nil || !h.Active(class.ID("a")) {
			t.Errorf("in memory: %v, %v", h.Active(class.ID("a")), err)
		}
		p.Jump(-time.Hour)
	})
	if err := s.Run(begin.Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if h.Active(class.ID("a")) {
		t.Error("it is still in memory")
	}
	p.Kill()
	s.Close()
}

// Plans that have found a defect of the host, or of its judge, find none any more. Each
// says what it was.
func TestWhatWasFoundIsMended(t *testing.T) {
	files, err := filepath.Glob("testdata/found/*.plan")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".plan"), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			p, err := ReadPlan(f)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(p, Options{})
			if err != nil || r.Violation != nil {
				t.Errorf("%v, %v", r.Violation, err)
			}
		})
	}
}
