package seams

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for list, want := range map[string]Seams{
		"":                         {},
		"no-reassert":              {Alarm: Alarm{NoReassert: true}},
		"no-release":               {Alarm: Alarm{NoRelease: true}, Session: Session{NoRelease: true}},
		"delete-last, no-reassert": {Alarm: Alarm{DeleteLast: true, NoReassert: true}},
		"rearm-while-idle,":        {Session: Session{RearmWhileIdle: true}},
		"no-ledger,no-epochs":      {Session: Session{NoLedger: true}, Storage: Storage{NoEpochs: true}},
		"kill-before-commit:3":     {Storage: Storage{KillBefore: 3}},
		"kill-after-commit:12":     {Storage: Storage{KillAfter: 12}},
		"slow-sync:20":             {Storage: Storage{SlowSync: 20}},
	} {
		if got, err := Parse(list); err != nil || got != want {
			t.Errorf("%q: %+v, %v", list, got, err)
		}
	}
	for _, list := range []string{"kill-after-commit", "kill-after-commit:", "kill-after-commit:0", "kill-after-commit:x", "no-ledger:1"} {
		if got, err := Parse(list); err == nil || got != (Seams{}) {
			t.Errorf("%q: %+v, %v", list, got, err)
		}
	}
	got, err := Parse("no-release,no-such")
	if err == nil || !strings.Contains(err.Error(), `"no-such" is not a seam; the seams are delete-last, `) || got != (Seams{}) {
		t.Errorf("an unknown name: %+v, %v", got, err)
	}
}

// A name that takes nothing out would let a test pass for the wrong reason.
func TestEachNameTakesSomethingOut(t *testing.T) {
	seen := map[Seams]string{{}: "nothing"}
	for _, name := range Names() {
		s, err := Parse(name)
		if err != nil {
			t.Error(err)
		}
		if other, taken := seen[s]; taken {
			t.Errorf("%s takes out what %s does", name, other)
		}
		seen[s] = name
	}
}
