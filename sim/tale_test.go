package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/seams"
)

func simulate(t *testing.T, seed uint64, profile string, o Options) *Result {
	t.Helper()
	p, err := NewPlan(seed, profile)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What is recorded is seen from beside: a world goes its way all the same.
func TestRecordingChangesNothing(t *testing.T) {
	bare, recorded := simulate(t, 1, "swarm", Options{}), simulate(t, 1, "swarm", Options{Record: true})
	if bare.Trace != recorded.Trace || bare.Steps != recorded.Steps {
		t.Errorf("%d steps, %x; recorded %d steps, %x", bare.Steps, bare.Trace, recorded.Steps, recorded.Trace)
	}
	if bare.Tale != nil || len(bare.Samples) > 0 || len(recorded.Samples) == 0 || len(recorded.Latencies) != recorded.Answered+recorded.Lost {
		t.Errorf("recorded: %d samples, %d latencies of %d answers", len(recorded.Samples), len(recorded.Latencies), recorded.Answered+recorded.Lost)
	}
	if len(bare.Marks) == 0 || len(bare.Marks) != len(recorded.Marks) {
		t.Errorf("%d marks, and %d when recorded", len(bare.Marks), len(recorded.Marks))
	}
}

// The tale of a request that a reset has lost goes through all hands, in order.
func TestTheLifeOfALostRequest(t *testing.T) {
	// The first seed of which the client is still there when its session is reset.
	attached := func(r *Result) bool {
		return r != nil && r.Tale != nil && slices.ContainsFunc(r.Tale.Moments, func(m Moment) bool { return strings.HasPrefix(m.Text, "Attach") })
	}
	var r *Result
	for seed := uint64(1); seed < 50 && !attached(r); seed++ {
		r = simulate(t, seed, "reset-mid-execute", Options{Record: true})
	}
	if r.Tale == nil || !strings.HasPrefix(r.Tale.Outcome, "lost: ") {
		t.Fatalf("the tale is %+v", r.Tale)
	}
	var said []string
	for i, m := range r.Tale.Moments {
		said = append(said, string(m.From)+">"+string(m.To)+" "+m.Text)
		if i > 0 && m.At < r.Tale.Moments[i-1].At {
			t.Errorf("%q is told too late", m.Text)
		}
	}
	all := strings.Join(said, "\n")
	rest := all
	for _, want := range []string{
		"client>front POST tools/call", "front>session Post", "session>disk commit: ledger row", "disk>session durable", "session>runtime ",
		"incarnation ", " ends", "front>session Attach", " begins", "session>disk commit: event, row discharged", "disk>session durable",
		"front>client event ", "error -32010", "client>client lost: ",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("%q is missing, or comes too early:\n%s", want, all)
		}
		rest = after
	}
	lost := 0
	for _, l := range r.Latencies {
		if l.Lost {
			lost++
		}
	}
	if lost != r.Lost {
		t.Errorf("%d of %d losses are recorded", lost, r.Lost)
	}
	kinds := map[MarkKind]int{}
	for _, m := range r.Marks {
		kinds[m.Kind]++
	}
	for _, k := range []MarkKind{FaultMark, StrikeMark, ResetMark, UpMark, DownMark} {
		if kinds[k] == 0 {
			t.Errorf("there is no mark of the kind %s: %v", k, kinds)
		}
	}
}

// Without the re-assertion runtimes stay for ever; the world can be watched while they
// do.
func TestAWorldWithoutTheReassertionGoesOn(t *testing.T) {
	residents := func(o Options) (last int, v *Violation) {
		o.Record = true
		r := simulate(t, 1, "idle-storm", o)
		for _, n := range r.Samples[len(r.Samples)-1].Residents {
			last += n
		}
		return last, r.Violation
	}
	if n, v := residents(Options{}); n != 0 || v != nil {
		t.Errorf("with it: %d are left, %v", n, v)
	}
	without := seams.Seams{Alarm: seams.Alarm{NoReassert: true}}
	if _, v := residents(Options{Seams: without}); v == nil || v.Invariant != "I7" {
		t.Errorf("without it: %v", v)
	}
	if n, _ := residents(Options{Seams: without, GoOn: true}); n < 10 {
		t.Errorf("without it only %d are left", n)
	}
}

// A panic of the real code is a finding like any other, with all that is needed to
// replay it.
func TestAPanicIsAViolation(t *testing.T) {
	r := simulate(t, 1, "swarm", Options{Broken: &Broken{World: func(w *World) {
		w.s.After(time.Minute, func() { panic("no such thing") })
	}}})
	if v := r.Violation; v == nil || v.Invariant != Panicked || !strings.Contains(v.Text, "no such thing") || v.At != time.Minute || len(r.Notes) == 0 {
		t.Errorf("%+v", r.Violation)
	}
}

func TestAPlanThatIsNoneIsNotRun(t *testing.T) {
	if _, err := Run(&Plan{}, Options{}); err == nil {
		t.Error("it was run")
	}
}
