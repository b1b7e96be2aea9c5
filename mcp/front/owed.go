package front

import (
	"slices"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// owed are the requests of one POST that its stream has not answered yet, in the
// order of the body. Two requests may have the same id; each is answered once.
type owed []wire.Message

// owedFor picks the requests out of a body.
func owedFor(ms []wire.Message) owed {
	var o owed
	for _, m := range ms {
		if m.Kind() == wire.Request {
			o = append(o, m)
		}
	}
	return o
}

// answered takes out one request with this id; false means that none is owed.
func (o *owed) answered(id wire.ID) (request wire.Message, ok bool) {
	for i, m := range *o {
		if m.ID() == id {
			*o = slices.Delete(*o, i, i+1)
			return m, true
		}
	}
	return request, false
}

// id is the id for an answer that concerns the whole body: that of its only
// request, none otherwise.
func (o owed) id() wire.ID {
	if len(o) == 1 {
		return o[0].ID()
	}
	return ""
}

// lost builds the error for each request that is still owed.
func (o owed) lost(why session.Loss) []wire.Message {
	answers := make([]wire.Message, len(o))
	for i, m := range o {
		l := why
		if m.Is("tools/call") {
			l.Tool = m.ParamString("name")
		}
		answers[i] = l.Answer(m.ID())
	}
	return answers
}
