package pebble

import (
	"encoding/hex"
	"log/slog"
	"sync"
)

// maxAside bounds the rows that are remembered as reported.
const maxAside = 1000

// aside are the rows that scans of many objects come across and that do not
// decode: entries of the alarm index, keys of no object. They stay where they
// are and are left out by every scan; each is reported once.
type aside struct {
	log *slog.Logger

	mu   sync.Mutex
	seen map[string]struct{}
}

func (a *aside) add(key []byte, err error) {
	a.mu.Lock()
	_, reported := a.seen[string(key)]
	if !reported && len(a.seen) < maxAside {
		if a.seen == nil {
			a.seen = make(map[string]struct{})
		}
		a.seen[string(key)] = struct{}{}
	}
	full := len(a.seen) == maxAside
	a.mu.Unlock()
	if reported || full {
		return // with that many, the first thousand say what there is to say
	}
	a.log.Error("a row of the store does not decode and is left out; the others are not affected", "key", hex.EncodeToString(key), "err", err,
		"hint", "the store's files are damaged; an alarm that the row was about runs once its object sets it anew, or after a backup is restored")
}

// count is how many there are, as far as scans have come.
func (a *aside) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}
