package actor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/kalpahost/kalpa/storage"
)

// What a unique id is made of: random bytes, and a tag by which its class is told
// from others. It is written as 64 hex digits.
const (
	idRandom = 24
	idTag    = 8
	idDigits = 2 * (idRandom + idTag)
)

// Why an id does not parse; the sentences are the platform's.
var (
	ErrInvalidID = errors.New("Invalid Durable Object ID: must be 64 hex digits")  //nolint:staticcheck // what users search for
	ErrOtherID   = errors.New("Durable Object ID is not valid for this namespace") //nolint:staticcheck // as above
)

// ErrNoClass: the host has no class of that name.
var ErrNoClass = errors.New("no such class")

// NewID is the identity of an object that nobody has addressed before: 64 hex
// digits, most of them drawn from Options.Entropy. The object exists from its first
// write on.
func (h *Host) NewID(class string) (storage.ID, error) {
	id := storage.ID{Class: class}
	if h.classes[class] == nil {
		return id, h.noClass("new id", id)
	}
	var b [idRandom]byte
	h.entropy.Lock()
	_, err := io.ReadFull(h.o.Entropy, b[:])
	h.entropy.Unlock()
	if err != nil {
		return id, &Error{Op: "new id", ID: id, Err: err, Hint: "Options.Entropy has to be without end"}
	}
	id.Name = uniqueName(class, b[:])
	return id, nil
}

// ParseID returns the identity that NewID has given out, from its text. It fails
// with an *Error that wraps ErrInvalidID when the text is no such id, and ErrOtherID
// when it is one of another class. It tells mistakes apart and not who may call:
// anybody can make up an id.
func ParseID(class, text string) (storage.ID, error) {
	id := storage.ID{Class: class, Name: text}
	b, err := hex.DecodeString(text)
	switch {
	case err != nil || len(b) != idDigits/2:
		return id, &Error{Op: "parse id", ID: id, Err: ErrInvalidID, Hint: "objects that have a name are addressed by that: " +
			"storage.ID{Class: class, Name: name}"}
	case uniqueName(class, b[:idRandom]) != hex.EncodeToString(b):
		return id, &Error{Op: "parse id", ID: id, Err: ErrOtherID, Hint: fmt.Sprintf("it was made for another class than %q, or a digit is wrong", class)}
	}
	id.Name = hex.EncodeToString(b)
	return id, nil
}

func uniqueName(class string, random []byte) string {
	tag := sha256.Sum256(append(append([]byte(class), 0), random...))
	return hex.EncodeToString(random) + hex.EncodeToString(tag[:idTag])
}

// Objects lists at most limit objects of a class that have something in storage,
// rows or an alarm, by name and after a name. The next page is the one after the
// last name of this; less than limit is the last page.
func (h *Host) Objects(ctx context.Context, class, after string, limit int) ([]storage.ID, error) {
	id := storage.ID{Class: class}
	switch {
	case h.classes[class] == nil:
		return nil, h.noClass("objects", id)
	case limit <= 0:
		return nil, &Error{Op: "objects", ID: id, Err: fmt.Errorf("a page of %d objects", limit), Hint: "ask for one at least"}
	}
	ids, err := h.o.Store.Objects(ctx, class, after, limit)
	if err != nil {
		return nil, &Error{Op: "objects", ID: id, Err: err}
	}
	return ids, nil
}

func (h *Host) noClass(op string, id storage.ID) error {
	return &Error{Op: op, ID: id, Err: ErrNoClass, Hint: fmt.Sprintf("register the class before the host starts; this host has %q", h.Classes())}
}
