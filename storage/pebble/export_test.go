package pebble

import "github.com/cockroachdb/pebble/v2"

// Tuned are options by which the engine is set otherwise than in production.
func (o Options) Tuned(tune func(*pebble.Options)) Options {
	o.tune = tune
	return o
}

// Engine is what is beneath a store.
func (s *Store) Engine() *pebble.DB { return s.db }

// ZerosAhead is how many zeros are written at a time.
const ZerosAhead = zerosAhead
