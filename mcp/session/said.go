package session

import (
	"bytes"
	"sync"
)

// said keeps what sessions have of the handshake once, where many have the same: clients
// of one kind introduce themselves alike, and a server answers all of them alike.
type said struct {
	mu   sync.Mutex
	last [8][]byte
	next int // the one that goes for another
}

// maxSaid bounds what is kept of one part, in bytes.
const maxSaid = 8 << 10

// same returns the same bytes, those of other sessions where they are kept. They must not
// be modified. A part of something larger does not keep that in memory.
func (s *said) same(b []byte) []byte {
	if len(b) > maxSaid || len(b) == 0 {
		return b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kept := range s.last {
		if bytes.Equal(kept, b) {
			return kept
		}
	}
	kept := bytes.Clone(b)
	s.last[s.next] = kept
	s.next = (s.next + 1) % len(s.last)
	return kept
}
