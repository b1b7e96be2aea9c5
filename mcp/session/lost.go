package session

import (
	"errors"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// Loss is why a request that was accepted is not answered by a runtime, in the
// words and numbers a caller decides by.
type Loss struct {
	// Reason is the cause's name: see actor.Cause, and the Reason constants.
	Reason   string `json:"reason"`
	Sentence string `json:"-"`
	// Retryable: the cause is transient; the same request is likely to succeed.
	Retryable bool `json:"retryable"`
	// Started: the request may have reached the runtime. False is a proof that it
	// has not, so that repeating it is safe.
	Started bool   `json:"started"`
	Epoch   uint64 `json:"epoch"` // of the incarnation that lost it
	Tool    string `json:"tool,omitempty"`
	// Detail is what else is known, such as the tail of a child's stderr.
	Detail string `json:"detail,omitempty"`
}

// Reasons that are the session's own, beside the causes of package actor.
const (
	ReasonRestart    = "restart"     // the incarnation ended and nobody is left to say why
	ReasonExited     = "exited"      // the runtime ended by itself
	ReasonDeadline   = "deadline"    // the running ceiling passed
	ReasonEnded      = "ended"       // the client ended the session
	ReasonUnanswered = "unanswered"  // no incarnation could be reached
	ReasonBuild      = "not_started" // no runtime could be built
)

var sentences = map[string]string{
	ReasonRestart:    "The host was restarted or the session was reset.",
	ReasonExited:     "The server exited while it was running the request.",
	ReasonDeadline:   "The request ran longer than the host allows.",
	ReasonEnded:      "The session was ended by its client.",
	ReasonUnanswered: "The session could not be reached.",
	ReasonBuild:      "The server could not be started.",
}

// Lost is the Loss of a reason.
func Lost(reason string) Loss {
	return Loss{Reason: reason, Sentence: sentences[reason],
		Retryable: reason == ReasonRestart || reason == ReasonExited || reason == ReasonUnanswered}
}

// LostTo is the Loss of a reset's cause.
func LostTo(c actor.Cause) Loss {
	if c == actor.NoCause {
		return Lost(ReasonRestart)
	}
	return Loss{Reason: c.String(), Sentence: c.Sentence(), Retryable: c.Transient()}
}

// lostToExit is the Loss when a runtime has ended by itself, or was ended by its plugin
// for what it took.
func lostToExit(err error) Loss {
	l := Lost(ReasonExited)
	switch {
	case errors.Is(err, mcp.ErrMemoryLimit):
		l.Reason, l.Sentence = actor.MemoryLimit.String(), "The server exceeded its memory limit and was ended."
	case errors.Is(err, mcp.ErrCPULimit):
		l.Reason, l.Sentence, l.Retryable = actor.CPULimit.String(), "The server exceeded its processor time and was ended.", false
	}
	return l
}

// Answer is the error that tells a client about the loss.
func (l Loss) Answer(id wire.ID) wire.Message {
	return wire.NewError(id, wire.LostExecution, "Execution lost: "+l.Sentence, l)
}
