package storage

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/kalpahost/kalpa/internal/seams"
)

// An epoch is a boot number above a counter, packed so that it stays below 2^53
// and survives a trip through a JSON number.
const (
	counterBits = 32
	bootBits    = 20
	// MaxBoot is the last boot number. A million starts of one store.
	MaxBoot = 1<<bootBits - 1
)

// MakeEpoch packs a boot number and a counter. Epochs order as the pairs do.
func MakeEpoch(boot, counter uint32) uint64 {
	return uint64(boot)<<counterBits | uint64(counter)
}

// SplitEpoch is the inverse of MakeEpoch.
func SplitEpoch(epoch uint64) (boot, counter uint32) {
	return uint32(epoch >> counterBits), uint32(epoch)
}

// ErrBootsExhausted: the store has been opened MaxBoot times, or has handed out
// as many epochs as there are.
var ErrBootsExhausted = errors.New("no boot numbers left")

// Fence decides which batches may land. It is shared by every Store, so that
// the simulated one refuses what the real one refuses.
//
// A claim is admission: a batch is admitted only if its object is claimed at
// this moment with exactly the batch's epoch. Whatever was released, superseded,
// or belongs to an earlier boot is refused. The table holds the objects that
// are claimed now and nothing else, so its size is the number of live
// incarnations.
//
// The fence row (object to epoch) that an incarnation's first batch carries is
// not what refuses stale batches within a process: it is the durable proof, read
// back by Acquire, that epochs of an object grow across boots too. It fails a
// claim when two boots shared a number, as after restoring an older copy of a
// store's files.
//
// A Fence is used by one goroutine at a time. Acquire alone may run on another.
type Fence struct {
	boot    uint32
	counter uint32
	claims  map[ID]*Incarnation
	seams   seams.Storage
}

// Incarnation is the fence's record of one claim.
type Incarnation struct {
	Epoch uint64

	alarm    *Alarm // the alarm row after the last admitted batch; nil: there is none
	group    uint64 // the Committer's: the last group that it wrote to
	acquired atomic.Bool
	fenced   bool // an admitted batch has carried the fence row
}

// NewFence returns a fence that gives out epochs of a boot number. The number
// must be durable, and greater than those of all earlier boots.
func NewFence(boot uint32) *Fence {
	return &Fence{boot: boot, claims: make(map[ID]*Incarnation)}
}

// Exhausted reports that the counter of this boot is used up. The next claim
// needs a call to Reboot first.
func (f *Fence) Exhausted() bool { return f.counter == 1<<counterBits-1 }

// Reboot goes on with a greater boot number, which must be durable. Claims stay.
func (f *Fence) Reboot(boot uint32) {
	if boot <= f.boot {
		panic(fmt.Sprintf("storage: boot %d after boot %d", boot, f.boot))
	}
	f.boot, f.counter = boot, 0
}

// Claim supersedes any incarnation of the object. The new one admits nothing
// until it has been acquired.
func (f *Fence) Claim(id ID) *Incarnation {
	if f.Exhausted() {
		panic("storage: claim on an exhausted fence")
	}
	f.counter++
	in := &Incarnation{Epoch: MakeEpoch(f.boot, f.counter)}
	f.claims[id] = in
	return in
}

// Acquire completes a claim of an object with what the store holds of it: the epoch
// of its fence row (0: no row) and its alarm. It must be called after every
// batch that was admitted before the claim can be read. It fails if the stored
// epoch is not older: then something else writes to this store.
func (in *Incarnation) Acquire(id ID, stored uint64, alarm Alarm) error {
	if stored >= in.Epoch {
		return &Error{
			Op: "claim", ID: id,
			Err: fmt.Errorf("%w: epoch %d is stored, and %d was about to begin",
				ErrStaleEpoch, stored, in.Epoch),
			Hint: "the store's files were replaced by an older copy, or two processes write to them",
		}
	}
	in.keep(alarm)
	in.acquired.Store(true)
	return nil
}

// Admit returns what to write for a batch, or false if it is stale.
func (f *Fence) Admit(b *Batch) (Write, bool) {
	in := f.claims[b.ID]
	if in == nil || !f.seams.NoEpochs && (in.Epoch != b.Epoch || !in.acquired.Load()) {
		return Write{}, false
	}
	w := Write{Batch: b, incarnation: in, Fence: !in.fenced}
	if in.alarm != nil {
		w.Was, w.Is = *in.alarm, *in.alarm
	}
	if b.Clear {
		w.Is = Alarm{}
	}
	if b.Alarm != nil {
		w.Is = b.Alarm.Normal()
	}
	in.fenced = true
	if b.Clear || b.Alarm != nil {
		in.keep(w.Is)
	}
	return w, true
}

// keep remembers the alarm row. Most objects have none, and it would be half of what is
// kept of each.
func (in *Incarnation) keep(a Alarm) {
	if in.alarm = nil; !a.At.IsZero() {
		kept := a
		in.alarm = &kept
	}
}

// Release ends an incarnation, unless a newer one has been claimed.
func (f *Fence) Release(id ID, epoch uint64) {
	if in := f.claims[id]; in != nil && in.Epoch == epoch {
		delete(f.claims, id)
	}
}

// Claimed is the number of live incarnations.
func (f *Fence) Claimed() int { return len(f.claims) }
