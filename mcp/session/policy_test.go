package session

import (
	"strings"
	"testing"
	"time"
)

func TestPolicyDecides(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	cfg := &Server{}
	cfg.defaults()
	never := &Server{Policy: Policy{IdleTimeout: -1}}
	never.defaults()
	row := &owed{}
	for _, tc := range []struct {
		name string
		v    view
		now  time.Duration
		want verdict
	}{
		{"nothing is resident", view{phase: none, active: t0, cfg: cfg}, time.Hour, verdict{}},
		{"closing", view{phase: closing, active: t0, cfg: cfg}, time.Hour, verdict{}},
		{"within the time-out", view{phase: ready, active: t0, cfg: cfg}, time.Minute, verdict{at: at(5 * time.Minute)}},
		{"at the time-out", view{phase: ready, active: t0, cfg: cfg}, 5 * time.Minute, verdict{do: dispose, at: at(5 * time.Minute)}},
		{"long after it", view{phase: ready, active: t0, cfg: cfg}, 24 * time.Hour, verdict{do: dispose, at: at(5 * time.Minute)}},
		{"within the time-out, under pressure", view{phase: ready, active: t0, cfg: cfg, pressed: true}, time.Minute, verdict{do: dispose, at: t0}},
		{"no time-out, under pressure", view{phase: ready, active: t0, cfg: never, pressed: true}, time.Hour, verdict{}},
		{"a call, under pressure", view{phase: ready, active: t0, cfg: cfg, pressed: true, leases: []lease{{until: at(35 * time.Minute), row: row}}},
			time.Minute, verdict{at: at(35 * time.Minute)}},
		{"building, under pressure", view{phase: building, since: t0, active: t0, cfg: cfg, pressed: true}, time.Second, verdict{at: at(time.Minute)}},
		{"no time-out", view{phase: ready, active: t0, cfg: never}, time.Hour, verdict{}},
		{"building", view{phase: building, since: t0, active: t0, cfg: cfg}, time.Second, verdict{at: at(time.Minute)}},
		{"building for too long", view{phase: building, since: t0, active: t0, cfg: cfg}, time.Minute, verdict{do: failBuild, at: at(time.Minute)}},
		{"a call that outlasts the time-out", view{phase: ready, active: t0, cfg: cfg, leases: []lease{{until: at(35 * time.Minute), row: row}}},
			20 * time.Minute, verdict{at: at(35 * time.Minute)}},
		{"a call at its ceiling", view{phase: ready, active: t0, cfg: cfg, leases: []lease{{until: at(35 * time.Minute), row: row}}},
			35 * time.Minute, verdict{do: expire, row: row, at: at(35 * time.Minute)}},
		{"a question within its wait", view{phase: ready, active: t0, cfg: cfg, leases: []lease{{until: at(9 * time.Minute), row: row}, {until: at(4 * time.Minute), ask: "1"}}},
			time.Minute, verdict{at: at(4 * time.Minute)}},
		{"a question after its wait", view{phase: ready, active: t0, cfg: cfg, leases: []lease{{until: at(9 * time.Minute), row: row}, {until: at(4 * time.Minute), ask: "1"}}},
			4 * time.Minute, verdict{do: decline, ask: "1", at: at(4 * time.Minute)}},
		{"a paused call at its ceiling", view{phase: ready, active: t0, cfg: cfg, leases: []lease{{until: at(9 * time.Minute), row: row}}},
			9 * time.Minute, verdict{do: expire, row: row, at: at(9 * time.Minute)}},
	} {
		if got := decide(tc.v, at(tc.now)); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// Anything but something to do now must want a time after now, or the alarm spins (I8).
func TestPolicyNeverSpins(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cfg := &Server{}
	cfg.defaults()
	for _, p := range []phase{none, building, ready, closing} {
		for _, leased := range []time.Duration{0, time.Minute, time.Hour} {
			for _, now := range []time.Duration{0, time.Second, time.Minute, 5 * time.Minute, time.Hour, 1000 * time.Hour} {
				v := view{phase: p, since: t0, active: t0, cfg: cfg}
				if leased > 0 {
					v.leases = []lease{{until: t0.Add(leased), row: &owed{}}}
				}
				got := decide(v, t0.Add(now))
				if got.do == wait && !got.at.IsZero() && !got.at.After(t0.Add(now)) {
					t.Errorf("phase %d, leased %v, now %v: wants %v", p, leased, now, got.at.Sub(t0))
				}
			}
		}
	}
}

func TestPolicyValidateReportsAll(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    Policy
		want []string // each in the error; none: it is valid
	}{
		{"nothing is set", Policy{}, nil},
		{"a default gives way", Policy{RunningCeiling: 2 * time.Second}, nil},
		{"each at its bound", Policy{ApprovalTimeout: 1, PausedCeiling: 1, RunningCeiling: 1, Lifetime: 1}, nil},
		{"never", Policy{IdleTimeout: -1, Lifetime: -1, RunningCeiling: MaxDuration}, nil},
		{"approval", Policy{ApprovalTimeout: 10 * time.Minute}, []string{"ApprovalTimeout, 10m0s, is more than PausedCeiling, 9m0s"}},
		{"paused", Policy{PausedCeiling: 36 * time.Minute}, []string{"PausedCeiling, 36m0s, is more than RunningCeiling, 35m0s"}},
		{"running", Policy{RunningCeiling: 800 * time.Hour}, []string{"RunningCeiling, 800h0m0s, is more than Lifetime, 720h0m0s"}},
		{"several", Policy{BuildTimeout: -1, Retention: -1, Lifetime: MaxDuration + 1, MaxLog: -1}, []string{
			"BuildTimeout is negative", "Retention is negative", "Lifetime is 87600h0m0.000000001s, more than 87600h0m0s", "must not be negative"}},
	} {
		err := tc.p.Validate()
		if (err != nil) != (len(tc.want) > 0) {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: nothing of %q in %v", tc.name, want, err)
			}
		}
	}
}

func TestDefaultsOfAPolicyGiveWayToTheBoundAboveThem(t *testing.T) {
	got := Policy{Lifetime: 10 * time.Minute}.WithDefaults()
	if got.RunningCeiling != 10*time.Minute || got.PausedCeiling != 9*time.Minute {
		t.Errorf("with a lifetime of 10 min: %+v", got)
	}
	got = Policy{RunningCeiling: time.Minute}.WithDefaults()
	if got.PausedCeiling != time.Minute || got.ApprovalTimeout != time.Minute {
		t.Errorf("with a running ceiling of 1 min: %+v", got)
	}
}
