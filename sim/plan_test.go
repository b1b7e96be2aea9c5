package sim

import (
	"strings"
	"testing"
)

const goodPlan = `kalpa plan 1
world seed=7 length=2m build=10ms..200ms
host isolates=2 idle=30s approval=20s paused=40s running=1m retention=10s lifetime=1h
client name=c0 kind=official version=2025-11-25 at=1s
op client=c0 at=2s tool=incr
call at=1s do=add
fault at=6s kind=kill
`

// What is wrong with a plan is told with the line that it stands on, before anything is
// run.
func TestAMistakeInAPlanIsToldWithItsLine(t *testing.T) {
	if _, err := ReadPlan(strings.NewReader("\n# A plan.\n" + goodPlan)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ was, is, want string }{
		{"kalpa plan 1\n", "", `line 1: a plan begins with "kalpa plan 1"`},
		{goodPlan, "# nothing\n", `a plan begins with "kalpa plan 1"`},
		{"call at", "gremlin at", `line 6: "gremlin" begins no line`},
		{"length=2m", "length=2x", `line 2: length: time: unknown unit`},
		{"length=2m", "length=721h", "line 2: length=721h0m0s: want more than 0 and at most 30 days"},
		{"length=2m", "", "length=0s: want more than 0 and at most 30 days; no line gives it"},
		{"isolates=2", "isolates=65", "line 3: isolates=65: want 1 to 64"},
		{"isolates=2", "isolates=2 owed=-1", "line 3: owed=-1: want 0 or more"},
		{"isolates=2", "isolates=2 heap=-1", "line 3: heap=-1: want 0 or more"},
		{"isolates=2", "isolates=2 evict=-1s", "line 3: evict=-1s: want 0 to"},
		{"idle=30s", "idle=0s", "line 3: idle=0s: want more than 0"},
		{"retention=10s", "", "retention=0s: want more than 0; no line gives it"},
		{"lifetime=1h", "lifetime=90000h", "line 3: lifetime=90000h0m0s: want 0 to 8760h0m0s"},
		{"seed=7", "seed=7 buildfails=7", "line 2: buildfails=7: want a chance, 0 to 1"},
		{"seed=7", "seed=7 buildfails=NaN", "line 2: buildfails=NaN: want a chance, 0 to 1"},
		{"10ms..200ms", "200ms..10ms", "line 2: build=200ms..10ms: want a range"},
		{"10ms..200ms", "-2ms..10ms", "line 2: build=-2ms..10ms: want a range"},
		{"10ms..200ms", "10ms", `line 2: build: "10ms" is no range; write 1ms..20ms`},
		{"seed=7", "seed=7 seed=8", "line 2: seed: it is given already, on line 2"},
		{"isolates=2", "isolates=2 Seed=8", "line 3: seed: it is given already, on line 2"},
		{"kind=kill", "kind=kill kind=cut", "line 7: kind: it is given already, on line 7"},
		{"call at=1s do=add", "client kind=mute version=2025-11-25", "line 6: a client needs a name"},
		{"call at=1s do=add", "client name=c0 kind=mute version=2025-11-25", "line 6: there are two clients c0"},
		{"official", "honest", `line 4: client c0: "honest" is no kind; there are official, stubborn,`},
		{"version=2025-11-25", "version=2025-11-26", `line 4: client c0: "2025-11-26" is no revision of the protocol; there are 2024-11-05,`},
		{"at=1s\nop", "at=-1s\nop", "line 4: at=-1s: want 0 to"},
		{"at=1s\nop", "at=1s delete=-1s\nop", "line 4: delete=-1s: want 0 to"},
		{"op client=c0", "op client=c1", "line 5: client=c1: there is no such client above"},
		{"tool=incr", "tool=decr", `line 5: client c0: "decr" is no tool; there are `},
		{"tool=incr", "tool=incr takes=-1s", "line 5: takes=-1s: want 0 to"},
		{"tool=incr", "tool=incr bytes=-1", "line 5: bytes=-1: want 0 or more"},
		{"do=add", "do=sub", `line 6: "sub" is no call; there are add,`},
		{"do=add", "do=add n=-1", "line 6: n=-1: want 0 or more"},
		{"kind=kill", "kind=krill", `line 7: "krill" is no fault; there are clock,`},
		{"at=6s", "at=-6s", "line 7: at=-6s: want 0 to"},
		{"kind=kill", "kind=kill n=-1", "line 7: n=-1: want 0 or more"},
		{"kind=kill", "kind=strike cause=aborted", "line 7: a strike needs a point"},
		{"kind=kill", "kind=strike point=after-commit", "line 7: a strike needs the cause of a reset"},
		{"kind=kill", "kind=strike point=after-commit cause=aborted n=-2", "line 7: n=-2: want 0 or more"},
		{"kind=kill", "kind=reset-isolate cause=aborted n=-2", "line 7: n=-2: want 0 or more"},
		{"kind=kill", "kind=reset-isolate", "line 7: reset-isolate needs a cause; there are memory_limit, "},
		{"kind=kill", "kind=reset-session", "line 7: reset-session needs a cause; there are memory_limit, "},
		{"kind=kill", "kind=reset-session cause=boredom", `line 7: cause: "boredom" is not a cause of resets; the causes are ["memory_limit" `},
	} {
		if !strings.Contains(goodPlan, tt.was) {
			t.Fatalf("%q is not in the plan", tt.was)
		}
		_, err := ReadPlan(strings.NewReader(strings.Replace(goodPlan, tt.was, tt.is, 1)))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q in place of %q: %v, want %s", tt.is, tt.was, err, tt.want)
		}
	}
}

// A plan that was made by code is not run either, and the mistake has its place.
func TestAPlanWithAMistakeIsNotRun(t *testing.T) {
	p, err := NewPlan(1, "swarm")
	if err != nil {
		t.Fatal(err)
	}
	p.Faults[2].N = -1
	if _, err := Run(p, Options{}); err == nil || err.Error() != "fault 3: n=-1: want 0 or more" {
		t.Errorf("%v", err)
	}
}
