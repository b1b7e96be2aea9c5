package session

import (
	"time"

	"github.com/kalpahost/kalpa/actor"
)

// Kinds of an Occurrence.
const (
	SessionOpened   = "session.opened"
	SessionEnded    = "session.ended" // Reason: deleted, expired, not_initialized or operator
	RuntimeBuilt    = "runtime.built"
	RuntimeFailed   = "runtime.failed"   // Detail says why
	RuntimeDisposed = "runtime.disposed" // Reason: as kalpa_mcp_runtime_disposals_total has it
	RequestSettled  = "request.settled"  // Outcome and Took; Reason where it was lost
	AlarmRun        = "alarm.run"        // the session has woken by itself
)

// Occurrence is something that became of a session, told when it is durable.
type Occurrence struct {
	Kind            string
	Session, Server string
	Isolate         int
	Epoch           uint64
	Generation      uint64 // of the runtime; 0: it is about none
	Reason, Detail  string
	Method, Tool    string // of the request that was settled
	Outcome         string // result, error, lost or cancelled
	Took            time.Duration
}

// Lost: the occurrence is that a request was answered with a lost execution.
func (o *Occurrence) Lost() bool { return o.Kind == RequestSettled && o.Outcome == outcomeLost }

// Watch has f called with all that becomes of sessions, from any goroutine. It must not
// block. There is one f.
func (s *Service) Watch(f func(Occurrence)) { s.watcher.Store(&f) }

func (s *Service) tell(o Occurrence) {
	if f := s.watcher.Load(); f != nil {
		(*f)(o)
	}
}

// settled tells of requests that have been settled.
func (s *Service) settled(at Occurrence, all []settlement, now time.Time) {
	if s.watcher.Load() == nil {
		return
	}
	for _, e := range all {
		at.Kind, at.Method, at.Tool, at.Reason, at.Took = RequestSettled, bounded(e.method), e.tool, e.lost, max(now.Sub(e.at), 0)
		at.Outcome, _ = e.outcome()
		s.tell(at)
	}
}

// place is where and of what an object's occurrences are.
func (obj *object) place(t *actor.Turn) Occurrence {
	o := Occurrence{Session: obj.s.id, Epoch: obj.s.epoch, Isolate: obj.svc.host.IsolateOf(t.ID())}
	if obj.s.meta != nil {
		o.Server = obj.s.meta.Server
	}
	return o
}
