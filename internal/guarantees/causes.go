package guarantees

import (
	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
)

// Cause is what resets a session, and what is said about the requests that are lost
// with it.
type Cause struct {
	Cause actor.Cause
	// Scope is what the cause takes down when it comes by itself.
	Scope actor.Scope
	// When it comes, for people.
	When string
}

var causes = []Cause{
	{actor.MemoryLimit, actor.WholeIsolate, "what a session wants to keep does not fit into the heap of its isolate"},
	{actor.CacheOverflow, actor.WholeIsolate, "what is not yet written does not fit into the storage cache of the isolate"},
	{actor.CPULimit, actor.OneObject, "one turn took too long"},
	{actor.StorageTimeout, actor.OneObject, "a storage operation took over 30 s"},
	{actor.CodeUpdated, actor.WholeIsolate, "a new deployment took the place of the old"},
	{actor.CriticalTimeout, actor.OneObject, "a constructor or a critical section took over 30 s"},
	{actor.ConstructorFailed, actor.OneObject, "a new incarnation could not be made"},
	{actor.Aborted, actor.OneObject, "an operator, a test or the object itself asked for it"},
	{actor.CommitFailed, actor.OneObject, "a batch could not be written"},
	{actor.Superseded, actor.OneObject, "a newer incarnation exists"},
	{actor.Panicked, actor.OneObject, "the code of the object panicked"},
	{actor.Shutdown, actor.WholeProcess, "the host is stopping, and the request was not answered in the drain time; at once, where its client has seen no event id to resume the stream from (revisions before 2025-11-25)"},
}

// Causes are all causes of resets.
func Causes() []Cause { return append([]Cause(nil), causes...) }

// Reason is what is said about requests that are lost without a reset, or after one
// that nobody is left to tell of.
type Reason struct {
	Reason string
	When   string
}

var reasons = []Reason{
	{session.ReasonRestart, "the host was killed and started again"},
	{session.ReasonExited, "the server's process ended by itself"},
	{session.ReasonDeadline, "the request ran into `running_ceiling` or `paused_ceiling`"},
	{session.ReasonEnded, "the client ended the session, with requests under way"},
	{session.ReasonUnanswered, "the front's last resort, where it knows no cause"},
	{session.ReasonBuild, "the server did not start, and was never sent the request, save for the `initialize` that opens the session (`started` says); the error's code is -32603"},
}

// Reasons are those that are no causes of resets.
func Reasons() []Reason { return append([]Reason(nil), reasons...) }
