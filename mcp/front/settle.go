package front

import (
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
)

// asked is what the session was asked to answer for: the requests that the exchange
// is owed when it can't wait any longer.
type asked struct {
	why *session.Loss
	by  time.Time // then the front answers alone; zero: nobody was asked
}

func (a asked) waits() bool { return !a.by.IsZero() }

// settle has what is owed answered as lost. The session is asked, for it alone knows
// whether a result came first, and what it has answered it answers no second time.
// The front writes alone only when the session can't be reached within AttachLimit.
func (x *exchange) settle(why session.Loss) (over bool) {
	x.openBy, x.expireAt = time.Time{}, time.Time{}
	switch {
	case len(x.owes) == 0:
		x.alone(why)
		return true
	case x.asked.waits():
		return false
	}
	x.asked = asked{&why, x.now().Add(x.f.o.AttachLimit)}
	return x.ask()
}

// ask is called again when another incarnation has taken the exchange over.
func (x *exchange) ask() (over bool) {
	if x.send(&session.Expire{Socket: x.socket, Stream: x.stream, Why: *x.asked.why}) != nil {
		x.alone(*x.asked.why)
		return true
	}
	return false
}

// alone ends the exchange without its session.
func (x *exchange) alone(why session.Loss) {
	x.lastResort(why)
	x.gone()
}
