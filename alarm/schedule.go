package alarm

import (
	"iter"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// Rows is one turn of an object, as a Schedule uses it: what is written lands
// with the turn's own writes, in one commit.
type Rows interface {
	Get(key string) ([]byte, error)
	List(r storage.Range) iter.Seq2[storage.Entry, error]
	Put(key string, value []byte)
	Delete(key string)
	Now() time.Time
}

// Prefix begins the keys of the schedule's rows. What begins with a zero byte is
// out of reach of an object's own code, so keys can't collide.
const Prefix = "\x00schedule/"

// Schedule multiplexes an object's deadlines through its one alarm. There is one
// for each incarnation. Its methods belong to the object's code, in a turn of it:
// elsewhere they fail. KeepAlive and its release are the exceptions.
//
// Nobody sets the object's alarm beneath a Schedule: it is derived, at the end of
// each turn and in the same commit, from the rows, the keep-alives and the
// sources.
type Schedule struct {
	o       KeeperOptions
	table   Table
	alive   keepAlives
	sources sources
}

// AddSource registers a deadline of the object's own: the object's Alarm is
// called when it is due, and until it wants a later time, or none. Another source
// of the same name is replaced. Sources last as long as the incarnation, so they
// belong where it starts: an alarm wakes an object that has done no more than
// that.
func (s *Schedule) AddSource(name string, source Source) { s.sources.add(name, source) }

// KeepAlive keeps the incarnation from being evicted, and its alarm at most a
// Heartbeat away, until it is released. Releasing twice is releasing once. When
// the last one is released the alarm is derived again.
func (s *Schedule) KeepAlive() (release func()) { return s.alive.hold(s.o.Released) }

// rows is the turn that is running.
func (s *Schedule) rows() (Rows, error) { return s.o.Turn() }
