package sim

import (
	"slices"

	"github.com/kalpahost/kalpa/actor"
)

// What has to happen now and then: a campaign in which some of it never has shows less
// than it seems to.

// recoveries are the ways back from what went wrong, and what else is rare.
var recoveries = []string{
	"a front attached again", "told again after a last resort", "resumed a POST's stream", "answered on a GET", "last resort",
	"told again by a host that was killed", "a copy was answered on a GET", "an old incarnation writes",
	"rebuilt after idle", "rebuilt after a reset", "re-executed", "began early", "retried what had not started",
	"the host crashed", "client leaves", "session deleted", "a person answered",
	"an alarm of clerk", "an alarm of bell", "an alarm late", "an alarm twice", "hold", "hold-twice", "hold-on", "await", "lock", "a turn at another's await",
	"a front waits for a client that does not read", "status 429",
	"a later request arrived first", "writes were torn", "clock forward", "clock back",
	"lost: memory_limit", "lost: cpu_limit", "lost: storage_timeout", "lost: exited", "lost: deadline", "lost: not_started",
}

// Sometimes is all that a campaign of swarm has to have seen, sorted.
func Sometimes() []string {
	all := slices.Clone(recoveries)
	// In any order: all is sorted in the end.
	for kind := range faults {
		switch kind {
		case "strike", "reset-session", "reset-isolate": // by cause, below
		default:
			all = append(all, kind)
		}
	}
	for _, c := range actor.Causes() {
		all = append(all, "reset-session "+c.String(), "reset-isolate "+c.String())
		for _, p := range actor.Points() {
			all = append(all, struck(p.String(), c.String()))
		}
	}
	for _, p := range actor.Points() {
		all = append(all, struck(p.String(), ""))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// struck names a strike that has hit. Without a cause it was the process's end.
func struck(point, cause string) string {
	if cause == "" {
		cause = "process"
	}
	return "strike " + point + " " + cause
}

// Whole is how many seeds of swarm see all of it, with plenty to spare.
const Whole = 1000

// Missing is what has to have happened in a campaign of swarm, and has not.
func Missing(covered map[string]int) []string {
	return slices.DeleteFunc(Sometimes(), func(what string) bool { return covered[what] > 0 })
}
