package actor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kalpahost/kalpa/storage"
)

// codeID is the object that knows which code the last host ran. It is no class's.
var codeID = storage.ID{Class: "kalpa.host", Name: "code"}

const codeKey = "version"

// code is what a host that has Options.Version leaves about itself.
type code struct {
	Version string `json:"version"`
	Boot    uint32 `json:"boot"` // its epochs are of this boot, and of later ones
	// From and To bound the boots of the host that other code took the place of last;
	// To is not one of them.
	From uint32 `json:"from,omitempty"`
	To   uint32 `json:"to,omitempty"`
}

// after is what a host leaves that follows on one, by its version and boot.
func (c code) after(version string, boot uint32) code {
	next := code{Version: version, Boot: boot, From: c.From, To: c.To}
	if c.Version != "" && c.Version != version {
		next.From, next.To = c.Boot, boot
	}
	return next
}

// deploy finds out whether this host's code is other than that of the one before, and
// leaves its own version for the next.
func (h *Host) deploy() error {
	if h.o.Version == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storageLimit)
	defer cancel()
	err := func() error {
		epoch, err := storage.Claim(ctx, h.o.Store, codeID)
		if err != nil {
			return err
		}
		defer h.o.Store.Release(codeID, epoch)
		b, err := h.o.Store.Get(ctx, codeID, codeKey)
		if err != nil {
			return err
		}
		var before code
		if b != nil {
			if err := json.Unmarshal(b, &before); err != nil {
				h.log.Warn("the code of the host before this one is not known", "error", err)
			}
		}
		boot, _ := storage.SplitEpoch(epoch)
		h.code = before.after(h.o.Version, boot)
		if before.Version != "" && before.Version != h.o.Version {
			h.log.Info("the code was updated", "from", before.Version, "to", h.o.Version)
		}
		if b, err = json.Marshal(h.code); err != nil {
			return err
		}
		return storage.Commit(ctx, h.o.Store, &storage.Batch{ID: codeID, Epoch: epoch, Puts: []storage.Entry{{Key: codeKey, Value: b}}})
	}()
	if err != nil {
		return &Error{Op: "deploy", ID: codeID, Err: fmt.Errorf("what code this host runs could not be written down: %w", err)}
	}
	return nil
}

// EndedBy is what has ended an incarnation of an earlier host on the same store, as far
// as is known: CodeUpdated where the next host ran other code, see [Options].Version;
// otherwise NoCause.
func (h *Host) EndedBy(epoch uint64) Cause {
	if boot, _ := storage.SplitEpoch(epoch); boot >= h.code.From && boot < h.code.To {
		return CodeUpdated
	}
	return NoCause
}

// Redeploy says that a class has new code, such as a plugin that was loaded anew: its
// objects in memory are reset, with the cause CodeUpdated, and each begins with a new
// incarnation. It returns how many there were.
func (h *Host) Redeploy(class string) (objects int, err error) {
	if h.classes[class] == nil {
		return 0, h.noClass("redeploy", storage.ID{Class: class})
	}
	for id := range h.InMemory(class) {
		if h.Reset(id, CodeUpdated, nil) != 0 {
			objects++
		}
	}
	return objects, nil
}
