package actor

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// ErrUnfinished: the call had begun when its object was reset, and parts of it may be
// durable.
var ErrUnfinished = errors.New("the call began and its execution was lost")

// Calls that have an identity leave a row: it says that the call has begun, in the
// commit of its first turn, and what came of it, in that of its last.
const (
	onceFirst = "\x00call/"
	onceEnd   = "\x00call0"
	// onceKept is for how long a row is kept, from when the call was made: much longer
	// than anybody repeats it.
	onceKept = time.Minute
	// MaxOnce bounds the result of such a call, in bytes.
	MaxOnce = 2 << 20
	// onceSwept is how many rows that are too old a new one takes with it.
	onceSwept = 4
)

// onceRow is a call that has begun.
type onceRow struct {
	Done bool   `json:"done,omitempty"`
	Out  []byte `json:"out,omitempty"`
	Err  string `json:"err,omitempty"`
}

// onceID makes the identity of a call. Identities order by time.
func (h *Host) onceID() (string, error) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(h.o.Clock.Now().UnixMilli()))
	h.entropy.Lock()
	defer h.entropy.Unlock()
	if _, err := io.ReadFull(h.o.Entropy, b[8:]); err != nil {
		return "", &Error{Op: "call", Err: err, Hint: "Options.Entropy has to be without end"}
	}
	return hex.EncodeToString(b[:]), nil
}

// recall answers a call that has begun before; false: it has not, and has now.
func (a *attempt) recall(t *Turn) (answered bool, err error) {
	b, err := t.Get(onceFirst + a.once)
	if err != nil {
		return false, err
	}
	if b == nil {
		a.record(t, onceRow{})
		return false, sweepOnce(t)
	}
	var row onceRow
	if err := json.Unmarshal(b, &row); err != nil {
		return false, err
	}
	var failed error
	switch {
	case !row.Done:
		failed = &Error{Op: "call", ID: t.ID(), Epoch: t.Epoch(), Err: ErrUnfinished, Hint: "look at what it has done before you ask for it again"}
	case row.Err != "":
		failed = errors.New(row.Err)
	}
	forget := t.OnBreak(a.lost)
	t.After(func() { forget(); a.reply(row.Out, failed) })
	return true, nil
}

// finish says in the turn's batch what came of the call. A result that does not fit
// there is an error.
func (c *call) finish(t *Turn, out []byte, failed error) ([]byte, error) {
	row := onceRow{Done: true, Out: out, Err: text(failed)}
	n := len(row.Out) + len(row.Err)
	// What is kept is somewhat larger: a third, for a result. The rest is for the schedule.
	if n > MaxOnce || t.size+2*n > storage.MaxBatch-1<<19 {
		out, failed = nil, &Error{Op: "call", ID: t.ID(), Epoch: t.Epoch(), Err: fmt.Errorf("%w: the result of %s has %d bytes", ErrTooLarge, c.method, n),
			Hint: "what a call with an identity returns is kept with what it has written: at most 2 MiB, and together 63 MiB"}
		row = onceRow{Done: true, Err: failed.Error()}
	}
	c.record(t, row)
	return out, failed
}

// record says in the turn's batch how far the call has come.
func (c *call) record(t *Turn, row onceRow) {
	b, err := json.Marshal(row)
	if err != nil {
		panic(err) // of plain values
	}
	t.Put(onceFirst+c.once, b)
}

// sweepOnce deletes the oldest rows, if they are too old.
func sweepOnce(t *Turn) error {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(t.Now().Add(-onceKept).UnixMilli()))
	old := storage.Range{Start: onceFirst, End: min(onceFirst+hex.EncodeToString(b[:]), onceEnd), Limit: onceSwept}
	for e, err := range t.list(old) {
		if err != nil {
			return err
		}
		t.Delete(e.Key)
	}
	return nil
}
