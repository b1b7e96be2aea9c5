package admin

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
)

// maxActivities is how many of the latest are remembered.
const maxActivities = 4096

// Activity is something ordinary that a session has done: too much of it happens for the
// feed of events.
type Activity struct {
	At         time.Time `json:"at"`
	Type       string    `json:"type"` // request.settled or alarm.run
	Session    string    `json:"session"`
	Server     string    `json:"server,omitempty"`
	Epoch      uint64    `json:"epoch"`
	Generation uint64    `json:"generation,omitempty"`
	Method     string    `json:"method,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	Outcome    string    `json:"outcome,omitempty"` // result, error, lost or cancelled
	Reason     string    `json:"reason,omitempty"`  // of a lost one
	Took       float64   `json:"took,omitempty"`    // seconds, from its admission
}

// Activities is the answer of GET /v1/activity: the latest, oldest first, of the
// maxActivities that the host remembers of all sessions. Parameters: session, limit.
type Activities struct {
	Activities []Activity `json:"activities"`
}

// diary is the latest activities, in a ring.
type diary struct {
	mu   sync.Mutex
	ring []Activity
	next int // where the next one goes, once the ring is full
}

func (r *diary) add(at time.Time, o *session.Occurrence) {
	a := Activity{at, o.Kind, o.Session, o.Server, o.Epoch, o.Generation, o.Method, o.Tool, o.Outcome, o.Reason, o.Took.Seconds()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < maxActivities {
		r.ring = append(r.ring, a)
		return
	}
	r.ring[r.next] = a
	r.next = (r.next + 1) % maxActivities
}

// of are the latest of a session (empty: of all), newest first.
func (r *diary) of(id string, limit int) (found []Activity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := len(r.ring) - 1; n >= 0 && len(found) < limit; n-- {
		if a := r.ring[(r.next+n)%len(r.ring)]; id == "" || a.Session == id {
			a.At = a.At.UTC()
			found = append(found, a)
		}
	}
	return found
}

func (a *api) activity(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := params(r, "session", "limit")
	if err != nil {
		return nil, err
	}
	limit, err := pageOf(q)
	if err != nil {
		return nil, err
	}
	all := Activities{Activities: []Activity{}}
	found := a.diary.of(q.Get("session"), limit)
	for _, a := range slices.Backward(found) {
		all.Activities = append(all.Activities, a)
	}
	return all, nil
}
