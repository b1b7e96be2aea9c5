package pebble

import (
	"context"

	"github.com/kalpahost/kalpa/storage"
)

// Compact gives the disk back what deleted and replaced rows take, in the whole store.
// The engine does that by itself as it goes; this is for who measures what is left, or
// who wants it now. It reads and writes all of the store, beside what else is done.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.begin(ctx, "compact", storage.ID{}, nil); err != nil {
		return err
	}
	defer s.reads.leave()
	return failed("compact", storage.ID{}, s.db.Compact(ctx, []byte{0}, []byte{0xff}, true))
}
