package actor

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/kalpahost/kalpa/storage"
)

// overlay is what batches that are not yet applied make of an object's rows:
// the object reads the store through it and so sees its own writes.
type overlay struct {
	cleared bool              // the store's own rows are gone, or there were none
	rows    map[string][]byte // a nil value: deleted
}

// overlayOf is that of batches; fresh: the store has nothing of the object.
func overlayOf(batches []*storage.Batch, fresh bool) *overlay {
	if len(batches) == 0 && !fresh {
		return nil
	}
	o := &overlay{cleared: fresh}
	for _, b := range batches {
		if b.Clear {
			o.clear()
		}
		for _, k := range b.Deletes {
			o.delete(k)
		}
		for _, e := range b.Puts {
			o.put(e.Key, e.Value)
		}
	}
	return o
}

// put, delete and clear keep an overlay up to date with a batch that grows. A nil
// overlay has not been read through yet.

func (o *overlay) put(key string, value []byte) {
	if o == nil {
		return
	}
	if value == nil {
		value = []byte{}
	}
	o.set(key, value)
}

func (o *overlay) delete(key string) {
	if o != nil {
		o.set(key, nil)
	}
}

func (o *overlay) set(key string, value []byte) {
	if o.rows == nil {
		o.rows = map[string][]byte{}
	}
	o.rows[key] = value
}

func (o *overlay) clear() {
	if o != nil {
		o.cleared = true
		clear(o.rows)
	}
}

func (o *overlay) get(ctx context.Context, s storage.Store, id storage.ID, key string) ([]byte, error) {
	if o != nil {
		if v, ok := o.rows[key]; ok || o.cleared {
			return v, nil
		}
	}
	return s.Get(ctx, id, key)
}

// list reads through the overlay as it is now: what is written while the rows are
// ranged over is not among them.
func (o *overlay) list(ctx context.Context, s storage.Store, id storage.ID, r storage.Range) iter.Seq2[storage.Entry, error] {
	switch {
	case o == nil:
		return s.List(ctx, id, r)
	case o.cleared && len(o.rows) == 0:
		return nothing
	}
	before := strings.Compare
	if r.Reverse {
		before = func(a, b string) int { return strings.Compare(b, a) }
	}
	var own []storage.Entry // a nil value is a row that is deleted
	for k, v := range o.rows {
		if r.Holds(k) {
			own = append(own, storage.Entry{Key: k, Value: v})
		}
	}
	slices.SortFunc(own, func(a, b storage.Entry) int { return before(a.Key, b.Key) })
	cleared := o.cleared
	return func(yield func(storage.Entry, error) bool) {
		left, own := r.Limit, own
		emit := func(e storage.Entry) bool {
			if e.Value == nil {
				return true
			}
			left--
			return yield(e, nil) && left != 0
		}
		if !cleared {
			all := r
			all.Limit = 0
			for e, err := range s.List(ctx, id, all) {
				if err != nil {
					yield(e, err)
					return
				}
				for len(own) > 0 && before(own[0].Key, e.Key) < 0 {
					if !emit(own[0]) {
						return
					}
					own = own[1:]
				}
				if len(own) > 0 && own[0].Key == e.Key {
					e.Value, own = own[0].Value, own[1:]
				} else if e.Value == nil {
					e.Value = []byte{}
				}
				if !emit(e) {
					return
				}
			}
		}
		for _, e := range own {
			if !emit(e) {
				return
			}
		}
	}
}

func nothing(func(storage.Entry, error) bool) {}
