package admin

import (
	"testing"
	"time"
)

func TestAHistoryBeginsAfterTheTimeThatIsAskedFor(t *testing.T) {
	var f figures
	begin := time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC)
	for n := range 10 {
		f.sample(begin.Add(time.Duration(n)*sampleEvery), Sample{Resident: int64(n)})
	}
	for _, c := range []struct {
		since time.Time
		want  int
	}{{time.Time{}, 10}, {begin.Add(-time.Second), 10}, {begin, 9}, {begin.Add(6 * time.Second), 8}, {begin.Add(time.Hour), 0}} {
		got := f.history(c.since)
		if len(got) != c.want || (c.want > 0 && got[c.want-1].Resident != 9) {
			t.Errorf("since %v: %d samples, want %d", c.since, len(got), c.want)
		}
	}
}
