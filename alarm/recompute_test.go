package alarm

import (
	"testing"
	"time"
)

func TestRecomputeAndReassert(t *testing.T) {
	at := func(s int) time.Time { return monday.Add(time.Duration(s) * time.Second) }
	var never time.Time
	table := func(destroy time.Time, rows ...*row) Table {
		t := Table{Destroy: destroy}
		for _, r := range rows {
			t.set(r, nil)
		}
		return t
	}
	due := func(id string, s int) *row { return &row{Entry: Entry{ID: id, Next: at(s)}} }
	taken := func(id string, s, check int) *row { return &row{Entry: Entry{ID: id, Next: at(s)}, check: at(check)} }
	wants := func(t time.Time) Source { return func(time.Time) time.Time { return t } }
	for _, c := range []struct {
		name      string
		table     Table
		alive     KeepAlives
		framework time.Time // the answer of Recompute
		sources   []Source
		want      time.Time // and of Reassert
	}{
		{"nothing wants nothing", table(never), KeepAlives{}, never, nil, never},
		{"the framework deletes, and the owner asserts its deadline again", table(never), KeepAlives{}, never, []Source{wants(at(300))}, at(300)},
		{"a source that wants nothing changes nothing", table(never), KeepAlives{}, never, []Source{wants(never)}, never},
		{"the earliest source", table(never), KeepAlives{}, never, []Source{wants(at(9)), wants(never), wants(at(7)), wants(at(8))}, at(7)},
		{"a source does not put off a schedule", table(never, due("a", 5)), KeepAlives{}, at(5), []Source{wants(at(300))}, at(5)},
		{"a source comes before a schedule", table(never, due("a", 500)), KeepAlives{}, at(500), []Source{wants(at(300))}, at(300)},
		{"a source in the past is due", table(never, due("a", 5)), KeepAlives{}, at(5), []Source{wants(at(-5))}, at(-5)},
		{"the earliest schedule", table(never, due("b", 9), due("a", 5), due("c", 7)), KeepAlives{}, at(5), nil, at(5)},
		{"a schedule that is overdue", table(never, due("a", -60)), KeepAlives{}, at(-60), nil, at(-60)},
		{"a run in progress is looked at again", table(never, taken("a", -1, 30)), KeepAlives{}, at(30), nil, at(30)},
		{"a run in progress hides no other schedule", table(never, taken("a", -1, 30), due("b", 4)), KeepAlives{}, at(4), nil, at(4)},
		{"a heartbeat", table(never), KeepAlives{Count: 2, Beat: at(12)}, at(12), nil, at(12)},
		{"a heartbeat is at most 30 s away", table(never), KeepAlives{Count: 1, Beat: at(4000)}, at(30), nil, at(30)},
		{"a heartbeat that was never planned", table(never), KeepAlives{Count: 1}, at(30), nil, at(30)},
		{"a heartbeat after a schedule", table(never, due("a", 5)), KeepAlives{Count: 1, Beat: at(12)}, at(5), nil, at(5)},
		{"a heartbeat before the idle deadline", table(never), KeepAlives{Count: 1, Beat: at(12)}, at(12), []Source{wants(at(300))}, at(12)},
		{"no keep-alive has no heartbeat", table(never), KeepAlives{Beat: at(12)}, never, nil, never},
		{"a pending destroy owns the alarm", table(at(60), due("a", 5)), KeepAlives{Count: 1, Beat: at(2)}, at(60), []Source{wants(at(1))}, at(60)},
	} {
		t.Run(c.name, func(t *testing.T) {
			framework := Recompute(c.table, c.alive, monday)
			if !framework.At.Equal(c.framework) || framework.Delete() != c.framework.IsZero() {
				t.Errorf("Recompute wants %v, want %v", framework, c.framework)
			}
			if got := Reassert(framework, c.sources, monday); !got.At.Equal(c.want) {
				t.Errorf("Reassert wants %v, want %v", got, c.want)
			}
		})
	}
}

func TestSourcesAreAskedWithTheTurnsTime(t *testing.T) {
	var asked time.Time
	Reassert(Answer{}, []Source{func(now time.Time) time.Time { asked = now; return now }}, monday)
	if !asked.Equal(monday) {
		t.Errorf("asked at %v", asked)
	}
}
