package alarm

// Outcome is what a run of an alarm or of a schedule has come to, for telemetry.
type Outcome string

// The outcomes of runs.
const (
	Succeeded Outcome = "succeeded"
	// Retried: it failed, and is tried again.
	Retried Outcome = "retried"
	// GivenUp: it failed, and is not tried again.
	GivenUp Outcome = "given_up"
	// CutShort: a reset or the end of the process ended it, at no cost of an attempt.
	CutShort Outcome = "cut_short"
	// SetAside: its schedule can't be run at all, and was taken out of the way.
	SetAside Outcome = "set_aside"
)

func (s *Schedule) count(o Outcome) {
	s.o.Owner.Count(o)
}
