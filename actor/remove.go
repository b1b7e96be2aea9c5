package actor

import (
	"context"
	"errors"

	"github.com/kalpahost/kalpa/storage"
)

// Remove deletes all that is stored of an object, its schedules and its alarm too, in
// one commit. An object that is in memory is reset. What is sent to it meanwhile
// waits, and finds an object that has nothing. It fails with an error that wraps
// [storage.ErrNoObject] when nothing is stored. The object's class need not be
// registered.
func (h *Host) Remove(ctx context.Context, id storage.ID) error {
	for {
		if leave := h.occupy(id); leave != nil {
			defer leave()
			return h.about("remove", id, storage.Remove(ctx, h.o.Store, id))
		}
		h.Reset(id, Aborted, errRemoved)
		if !h.sleep(ctx, importPause) {
			return h.about("remove", id, context.Cause(ctx))
		}
	}
}

var errRemoved = errors.New("the object is removed")
