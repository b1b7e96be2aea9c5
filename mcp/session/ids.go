package session

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// NewID mints a session id, as IDFrom does, with 130 random bits.
func NewID(now time.Time) string { return IDFrom(rand.Text(), now) }

// IDFrom makes a session id of a text as [rand.Text] returns it: 7 characters that say
// when, and then the text. Ids order as their times do, so that rows of sessions that are
// opened one after the other lie beside each other: what is written next is where the
// last was written, and not anywhere in the store.
func IDFrom(text string, now time.Time) string {
	var b [idTime]byte
	for i, at := len(b)-1, now.UnixMilli()/idGrain; i >= 0; i, at = i-1, at>>5 {
		b[i] = ordered[at&31]
	}
	return string(b[:]) + strings.ToLower(text)
}

const (
	idTime = 7 // characters
	// idGrain is how exact the time in an id is, in milliseconds. It begins again after
	// 2^35 of them, 69 years.
	idGrain = 64
	// ordered are the characters of an id, in the order of their bytes.
	ordered = "234567abcdefghijklmnopqrstuvwxyz"
)

// NewStream mints a stream id, unique in its session: 13 characters, 65 random bits.
func NewStream() string { return StreamFrom(rand.Text()) }

// StreamFrom makes a stream id of a text as [rand.Text] returns it.
func StreamFrom(text string) string { return strings.ToLower(text[:13]) }

// EventID is a position in the log of one stream, ordered by (Epoch, Seq). Seq 0
// is the position before the first event of an epoch.
type EventID struct {
	Stream string
	Epoch  uint64
	Seq    uint64
}

func (e EventID) String() string {
	return e.Stream + "." + strconv.FormatUint(e.Epoch, 36) + "." + strconv.FormatUint(e.Seq, 36)
}

// toldMark ends the event id that a front writes as its last resort. It is no digit.
const toldMark = "!"

// Told is the id with which a front ends a stream as its last resort: the client
// that resumes from it has been told that what the stream still owed is lost.
func (e EventID) Told() string { return e.String() + toldMark }

// IsTold recognizes what Told wrote.
func IsTold(s string) bool { return strings.HasSuffix(s, toldMark) }

// ParseEventID reads what String or Told wrote.
func ParseEventID(s string) (EventID, error) {
	part := strings.Split(strings.TrimSuffix(s, toldMark), ".")
	if len(part) == 3 && part[0] != "" && len(part[0]) <= 64 {
		epoch, err1 := strconv.ParseUint(part[1], 36, 64)
		seq, err2 := strconv.ParseUint(part[2], 36, 64)
		if err1 == nil && err2 == nil {
			return EventID{part[0], epoch, seq}, nil
		}
	}
	return EventID{}, fmt.Errorf("%.80q is not an event id of this host", s)
}

// Less orders the events of one stream.
func (e EventID) Less(o EventID) bool {
	return e.Epoch < o.Epoch || e.Epoch == o.Epoch && e.Seq < o.Seq
}
