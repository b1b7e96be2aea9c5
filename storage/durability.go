package storage

import "fmt"

// Durability says what an acknowledged write has survived. It is a property of
// a whole store, chosen when it is opened.
type Durability uint8

const (
	// Sync acknowledges a batch after an fsync: it survives a power cut.
	Sync Durability = iota
	// Relaxed acknowledges a batch when the operating system has its bytes: it
	// survives the death of the process, kill -9 included, and not that of the
	// machine. What a power cut takes away is a suffix of the history.
	Relaxed
)

func (d Durability) String() string {
	switch d {
	case Sync:
		return "sync"
	case Relaxed:
		return "relaxed"
	}
	return fmt.Sprintf("durability(%d)", uint8(d))
}

// ParseDurability reads what String writes.
func ParseDurability(s string) (Durability, error) {
	switch s {
	case "sync":
		return Sync, nil
	case "relaxed":
		return Relaxed, nil
	}
	return 0, fmt.Errorf("durability %q: want %q or %q", s, Sync, Relaxed)
}
