package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// ghosts is a store to which incarnations write that are gone: now and then a batch
// comes once more, when its object has another incarnation, as from a node that was
// paused during a takeover. Storage has to refuse it.
type ghosts struct {
	storage.Store
	w      *World
	p      *Process
	rand   *rand.Rand
	newest map[storage.ID]uint64
}

func (w *World) haunted(p *Process, s storage.Store, r *rand.Rand) storage.Store {
	return &ghosts{Store: s, w: w, p: p, rand: r, newest: map[storage.ID]uint64{}}
}

// Claim implements storage.Store.
func (s *ghosts) Claim(id storage.ID, done func(epoch uint64, fresh bool, err error)) {
	s.Store.Claim(id, func(epoch uint64, fresh bool, err error) {
		if err == nil {
			s.newest[id] = epoch
		}
		done(epoch, fresh, err)
	})
}

// Submit implements storage.Store.
func (s *ghosts) Submit(b *storage.Batch, done func(error)) {
	if s.rand.IntN(20) == 0 && !b.Clear {
		again := *b
		again.Puts, again.Deletes = slices.Clone(b.Puts), slices.Clone(b.Deletes)
		s.p.AfterFunc((Spread{0, 5 * time.Second}).draw(s.rand), func() {
			if s.newest[again.ID] > again.Epoch {
				s.w.sometimes("an old incarnation writes")
				s.Store.Submit(&again, func(error) {})
			}
		})
	}
	s.Store.Submit(b, done)
}
