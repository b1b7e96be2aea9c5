// Package seams names the parts of kalpa that a test can take out, to show what
// they are there for: a test that can't fail shows nothing. And it names moments
// at which a test can end the process, as by kill -9. A seam is a value that is
// handed down, never a global. All is in place in the zero value.
//
// There is one struct for each area, which goes into the options of the package
// that it is about, and one table of names, for programs that are built with the
// tag seams and take theirs from the environment (cmd/seams_on.go). A program that
// is shipped is built without it, and nothing in its environment takes a part out.
package seams

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Seams is all that can be taken out.
type Seams struct {
	Storage Storage
	Alarm   Alarm
	Session Session
}

// Storage takes parts of the write fence out, ends the process at a commit, and makes the
// disk a slow one.
type Storage struct {
	// NoEpochs: a batch lands whatever incarnation it is of.
	NoEpochs bool
	// KillBefore and KillAfter are numbers of group commits, of which the first is 1:
	// the process ends just before it is applied, or just after it is durable and
	// before anybody knows. 0: never.
	KillBefore, KillAfter uint64
	// SlowSync is how many milliseconds each fsync takes longer than it would.
	SlowSync uint64
}

// Alarm takes parts of the derivation of an object's alarm out.
type Alarm struct {
	// NoReassert: the sources are not consulted; the framework's answer is written
	// as it is.
	NoReassert bool
	// NoRelease: the release of the last keep-alive makes no turn.
	NoRelease bool
	// DeleteLast: when the framework wants no alarm it says so after the sources
	// have been consulted, not before.
	DeleteLast bool
}

// Session takes parts of a session out: of its deadlines, and its ledger.
type Session struct {
	// NoLedger: no row is written for a request that is owed an answer. A reset leaves
	// it unanswered for ever.
	NoLedger bool
	// NoRelease: a turn that only gives something back derives no alarm. A lease that
	// ends, a flush that is confirmed, a client that leaves: the alarm stays what it
	// became when something was last taken.
	NoRelease bool
	// RearmWhileIdle: the idle deadline is armed again also when no runtime is
	// resident.
	RearmWhileIdle bool
}

// named is each seam by its name. One that has to be taken out in two areas has one
// name.
var named = map[string]func(*Seams){
	"no-reassert":      func(s *Seams) { s.Alarm.NoReassert = true },
	"no-release":       func(s *Seams) { s.Alarm.NoRelease, s.Session.NoRelease = true, true },
	"delete-last":      func(s *Seams) { s.Alarm.DeleteLast = true },
	"no-ledger":        func(s *Seams) { s.Session.NoLedger = true },
	"no-epochs":        func(s *Seams) { s.Storage.NoEpochs = true },
	"rearm-while-idle": func(s *Seams) { s.Session.RearmWhileIdle = true },
}

// numbered is each seam that says when, or how much.
var numbered = map[string]func(*Seams) *uint64{
	"kill-before-commit": func(s *Seams) *uint64 { return &s.Storage.KillBefore },
	"kill-after-commit":  func(s *Seams) *uint64 { return &s.Storage.KillAfter },
	"slow-sync":          func(s *Seams) *uint64 { return &s.Storage.SlowSync },
}

// Names lists the seams that take something out.
func Names() []string { return slices.Sorted(maps.Keys(named)) }

// Parse reads a list of names that are separated by commas, some with a number, as
// in kill-after-commit:3. A name that is not known is an error: nothing must seem to
// be taken out that is not.
func Parse(list string) (s Seams, err error) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		if take, ok := named[name]; ok {
			take(&s)
			continue
		}
		key, number, _ := strings.Cut(name, ":")
		at, ok := numbered[key]
		n, err := strconv.ParseUint(number, 10, 64)
		switch {
		case !ok:
			return Seams{}, fmt.Errorf("%q is not a seam; the seams are %s, and with a number %s", name,
				strings.Join(Names(), ", "), strings.Join(slices.Sorted(maps.Keys(numbered)), ", "))
		case err != nil || n == 0:
			return Seams{}, fmt.Errorf("%q needs a number, as in %s:1", name, key)
		}
		*at(&s) = n
	}
	return s, nil
}
