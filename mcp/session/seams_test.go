package session

import (
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/seams"
)

// What the alarm is derived from when a session was called once, after the answer
// and when its runtime is gone, with and without what a test takes out.
func TestWhatATestTakesOutIsSeen(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const idle, ceiling = 5 * time.Minute, 35 * time.Minute
	for name, tc := range map[string]struct {
		out                    seams.Session
		called, answered, gone time.Duration // from t0; zero: no deadline
	}{
		"nothing":          {seams.Session{}, ceiling, idle + time.Second, 0},
		"no release":       {seams.Session{NoRelease: true}, ceiling, ceiling, 0},
		"rearm while idle": {seams.Session{RearmWhileIdle: true}, ceiling, idle + time.Second, idle + time.Second},
	} {
		cfg := &Server{}
		cfg.IdleTimeout, cfg.RunningCeiling, cfg.Retention, cfg.Lifetime = idle, ceiling, time.Minute, -1
		s := &state{cfg: cfg, meta: &meta{}, active: t0, rt: runtime{phase: ready, gen: 1, next: 1}}
		source, keep := s.sources(tc.out)
		want := func(when string, got time.Time, d time.Duration) {
			t.Helper()
			if d == 0 && !got.IsZero() || d != 0 && !got.Equal(t0.Add(d)) {
				t.Errorf("%s: %s the deadline is %v, want %v", name, when, got, d)
			}
		}
		want("before the call", source(t0), idle)
		want("before the call, of what is kept,", keep(t0), 0)

		s.rt.next++ // the request is sent
		s.live = []*owed{{since: t0}}
		want("during the call", source(t0), tc.called)
		want("during the call, of what is kept,", keep(t0), 0)
		s.live, s.active = nil, t0.Add(time.Second)
		want("after the answer", source(s.active), tc.answered)
		s.mark(&stream{}, s.active, &out{}) // the flush is confirmed
		kept := time.Second + cfg.Retention*5/4
		if tc.out.NoRelease {
			kept = 0
		}
		want("after the flush, of what is kept,", keep(s.active), kept)
		s.rt.phase = none
		want("without a runtime", source(s.active.Add(time.Hour)), tc.gone)
	}
}
