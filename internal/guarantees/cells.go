package guarantees

import (
	"time"

	"github.com/kalpahost/kalpa/actor"
)

// Within is how soon a client knows what has become of its request: from the reset
// on when its stream is alive, from its reconnect on otherwise.
const Within = time.Second

// Situation is what happens around a reset.
type Situation uint8

const (
	// Alive: the stream of the POST is open all the time.
	Alive Situation = iota
	// Cut: the stream is cut before the reset, and the client comes back after it.
	Cut
	// Killed: the process, front and host in one, ends as by kill -9, and is started
	// again.
	Killed
)

func (s Situation) String() string {
	return [...]string{"stream alive", "stream cut before", "killed and restarted"}[s]
}

// Situations are all of them.
func Situations() []Situation { return []Situation{Alive, Cut, Killed} }

// Outcome is what a client gets for a request.
type Outcome uint8

const (
	// Answered: the runtime's answer, from the one execution that there was.
	Answered Outcome = iota
	// Lost: the error that its execution was lost.
	Lost
	// Replayed: the runtime's answer, from storage.
	Replayed
	// NotAccepted: nothing, now and later. Nothing was executed, and the client can
	// send the request again.
	NotAccepted
)

func (o Outcome) String() string {
	return [...]string{"answered by the server", "lost", "the server's answer, from storage", "never accepted, may be repeated"}[o]
}

// Where is the stream on which the answer comes.
type Where uint8

const (
	// Nowhere: there is none.
	Nowhere Where = iota
	// Same: the stream of the POST.
	Same
	// Resumed: the GET with the id of the last event that was seen.
	Resumed
	// Fresh: any GET of the session. The client holds no event id of the stream.
	Fresh
)

func (w Where) String() string {
	return [...]string{"", "on the stream of the POST", "on GET with Last-Event-ID", "on any GET"}[w]
}

// Cell is what becomes of one request whose execution comes to a point, where the
// session is reset.
type Cell struct {
	Point     actor.Point
	Situation Situation
	Outcome   Outcome
	Where     Where
	// Started and StartedCold are what the error of a lost request says, where a
	// runtime was resident and where one had to be built.
	Started, StartedCold bool
}

// cells is the table, in the order of points and situations.
var cells = []Cell{
	{actor.BeforeCommit, Alive, Answered, Same, false, false},
	{actor.BeforeCommit, Cut, NotAccepted, Nowhere, false, false},
	{actor.BeforeCommit, Killed, NotAccepted, Nowhere, false, false},

	// Nobody has been told that the request was accepted, so nobody has an event id.
	{actor.AfterCommit, Alive, Lost, Same, true, false},
	{actor.AfterCommit, Cut, Lost, Fresh, true, false},
	{actor.AfterCommit, Killed, Lost, Fresh, true, false},

	{actor.AfterDelivery, Alive, Lost, Same, true, true},
	{actor.AfterDelivery, Cut, Lost, Resumed, true, true},
	{actor.AfterDelivery, Killed, Lost, Resumed, true, true},

	{actor.BetweenEvents, Alive, Lost, Same, true, true},
	{actor.BetweenEvents, Cut, Lost, Resumed, true, true},
	{actor.BetweenEvents, Killed, Lost, Resumed, true, true},

	{actor.AfterResult, Alive, Replayed, Same, false, false},
	{actor.AfterResult, Cut, Replayed, Resumed, false, false},
	{actor.AfterResult, Killed, Replayed, Resumed, false, false},

	// The front has the answer already, and needs nobody for writing it.
	{actor.BeforeFlush, Alive, Answered, Same, false, false},
	{actor.BeforeFlush, Cut, Replayed, Resumed, false, false},
	{actor.BeforeFlush, Killed, Replayed, Resumed, false, false},
}

// Cells is the table: a cell for each point in each situation.
func Cells() []Cell { return append([]Cell(nil), cells...) }
