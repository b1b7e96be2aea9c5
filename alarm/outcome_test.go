package alarm

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRunsAreCountedByWhatTheyComeTo(t *testing.T) {
	fails := errors.New("no")
	o := newOwner(t)
	want := map[Outcome]int{}
	is := func(what string) {
		t.Helper()
		if diff := cmp.Diff(want, o.outcomes); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
	run := func(outcome error) {
		o.now = o.alarm.At
		o.wake(func(Run) error { return outcome })
	}
	o.turn(func(s *Schedule) { must(t)(s.In(0, "f", nil, WithRetry(3, time.Second))) })
	run(fails)
	want[Retried]++
	is("a failure that is tried again")
	run(errPlatform)
	want[CutShort]++
	is("a failure of the platform's")
	run(nil)
	want[Succeeded]++
	is("a success")
	o.turn(func(s *Schedule) { must(t)(s.In(0, "f", nil, WithRetry(1, time.Second))) })
	run(fails)
	want[GivenUp]++
	is("the last failure of what runs once")
	o.turn(func(s *Schedule) { must(t)(s.Every(time.Second, "f", nil, WithID("again"), WithRetry(2, time.Minute))) })
	run(fails)
	want[GivenUp]++
	is("a failure whose retry would come after the next run")
	run(nil)
	want[Succeeded]++
	is("a success of what runs again")
	for n, last := range []Reset{{Epoch: 1}, {Epoch: 2, Own: true, Memory: true}, {}} { // not about it; a strike; another process
		run(errAwaits)
		o.restart(last)
		o.look()
		want[CutShort]++
		if is("a run that was cut short"); n == 1 && o.next("again").Sub(o.now) != strikeWait(1) {
			t.Fatal("not a strike")
		}
	}
	o.known["f"] = false
	run(nil)
	want[SetAside]++
	is("a callback that the code no longer has")
	o.rows[entryPrefix+"bad"] = []byte("{")
	o.restart(Reset{})
	o.look()
	want[SetAside]++
	is("a row that does not decode")
}
