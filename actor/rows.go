package actor

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/kalpahost/kalpa/storage"
)

// What an object may store. The limits are those of the platform whose semantics
// these are.
const (
	MaxKeys  = 128            // keys of one call
	MaxKey   = storage.MaxKey // bytes of one key: 2,048
	MaxValue = 2 << 20        // bytes of one value

	// maxCommit leaves room for what an object's schedule writes with it.
	maxCommit = storage.MaxBatch - 1<<20
)

// Why an operation on an object's rows is refused, which then has changed nothing.
var (
	// ErrKey: the key is empty, too long or reserved.
	ErrKey = errors.New("not a key")
	// ErrTooLarge: a value, or what is written with no await in between, is too large.
	ErrTooLarge = errors.New("too large")
	// ErrTooManyKeys: there are more than MaxKeys in one call.
	ErrTooManyKeys = errors.New("too many keys")
	// ErrRange: the options of a list contradict each other.
	ErrRange = errors.New("not a range")
)

// Get reads a value; nil when the key is not there. It must not be modified.
func (s *State) Get(key string) ([]byte, error) {
	t, err := s.holder()
	if err != nil {
		return nil, err
	}
	if err := s.check("get", key); err != nil {
		return nil, err
	}
	return t.Get(key)
}

// GetMany reads up to MaxKeys values. Keys that are not there are not in the result.
func (s *State) GetMany(keys ...string) (map[string][]byte, error) {
	t, err := s.holder()
	if err != nil {
		return nil, err
	}
	if err := s.check("get", keys...); err != nil {
		return nil, err
	}
	found := make(map[string][]byte, len(keys))
	for _, k := range keys {
		v, err := t.Get(k)
		if err != nil {
			return nil, err
		}
		if v != nil {
			found[k] = v
		}
	}
	return found, nil
}

// Put writes a value, of MaxValue bytes at most. Writes with no await in between
// are one commit.
func (s *State) Put(key string, value []byte) error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	if err := s.check("put", key); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return s.tooLarge(key, len(value))
	}
	if err := s.room(t, "put", t.growth(key, value)); err != nil {
		return err
	}
	t.Put(key, append([]byte{}, value...))
	return nil
}

// PutMany writes up to MaxKeys values, or none of them.
func (s *State) PutMany(rows map[string][]byte) error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	keys := slices.Sorted(maps.Keys(rows))
	if err := s.check("put", keys...); err != nil {
		return err
	}
	size := 0
	for _, k := range keys {
		if len(rows[k]) > MaxValue {
			return s.tooLarge(k, len(rows[k]))
		}
		size += t.growth(k, rows[k])
	}
	if err := s.room(t, "put", size); err != nil {
		return err
	}
	for _, k := range keys {
		t.Put(k, append([]byte{}, rows[k]...))
	}
	return nil
}

// Delete deletes up to MaxKeys values. Whether they are there is not looked at.
func (s *State) Delete(keys ...string) error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	if err := s.check("delete", keys...); err != nil {
		return err
	}
	size := 0
	for _, k := range keys {
		size += rowSize(k, nil)
	}
	if err := s.room(t, "delete", size); err != nil {
		return err
	}
	for _, k := range keys {
		t.Delete(k)
	}
	return nil
}

// List reads rows in the order of their keys' bytes, as they are when List is
// called: the loop may write, and does not see it. It must not await. A range that
// can't be is the error of the first pair.
func (s *State) List(r storage.Range) iter.Seq2[storage.Entry, error] {
	t, err := s.holder()
	switch {
	case err != nil:
	case r.Start != "" && r.After != "":
		err = s.fail("list", fmt.Errorf("%w: it has both Start and After", ErrRange), "Start is the first key; After is the last that is left out")
	case r.Limit < 0:
		err = s.fail("list", fmt.Errorf("%w: its limit is %d", ErrRange, r.Limit), "0 means that there is none")
	default:
		return t.List(r)
	}
	return func(yield func(storage.Entry, error) bool) { yield(storage.Entry{}, err) }
}

// DeleteAll deletes every value, every schedule and the alarm, in one commit. What
// is written or set after it stays. Of calls with an identity those are forgotten that
// have ended.
func (s *State) DeleteAll() error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	t.Clear()
	if err := s.inc.err(); err != nil {
		return err
	}
	for _, c := range s.once {
		c.record(t, onceRow{}) // that it has begun is not the object's to forget
	}
	return nil
}

// check refuses keys that can't be stored, or that are the host's.
func (s *State) check(op string, keys ...string) error {
	if len(keys) > MaxKeys {
		return s.fail(op, fmt.Errorf("%w: %d", ErrTooManyKeys, len(keys)), fmt.Sprintf("Maximum number of keys is %d.", MaxKeys))
	}
	for _, k := range keys {
		switch {
		case k == "":
			return s.fail(op, fmt.Errorf("%w: it is empty", ErrKey), "")
		case len(k) > MaxKey:
			return s.fail(op, fmt.Errorf("%w: %.20q... has %d bytes", ErrKey, k, len(k)), fmt.Sprintf("Keys cannot be larger than %d bytes.", MaxKey))
		case reserved(k):
			return s.fail(op, fmt.Errorf("%w: %w", ErrKey, errReserved), "let the key begin with another byte")
		}
	}
	return nil
}

// room refuses what would make the batch larger than a commit can be.
func (s *State) room(t *Turn, op string, more int) error {
	if t.size+more > maxCommit {
		return s.fail(op, fmt.Errorf("%w: what is written with no await in between would have %d bytes, and may have %d", ErrTooLarge, t.size+more, maxCommit),
			"await something, or Sync, in between; a transaction has to be smaller")
	}
	return nil
}

func (s *State) tooLarge(key string, n int) error {
	return s.fail("put", fmt.Errorf("%w: the value of %.20q has %d bytes", ErrTooLarge, key, n), fmt.Sprintf("values cannot be larger than %d bytes", MaxValue))
}
