package oracle

import (
	"sync"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// disk is a store on which a commit takes a moment, and that can lose its power: so
// what leaves an object before it is durable can be caught at it.
type disk struct {
	storage.Store // what is durable

	mu    sync.Mutex
	queue []func()
	lost  bool
	work  chan struct{}
	ended chan struct{}
}

// commit is how long a commit takes. It is real time: it is to be long beside the
// host's own code.
const commit = time.Millisecond

func newDisk(durable storage.Store) *disk {
	d := &disk{Store: durable, work: make(chan struct{}, 1), ended: make(chan struct{})}
	go d.run()
	return d
}

func (d *disk) run() {
	defer close(d.ended)
	for range d.work {
		for f := d.next(); f != nil; f = d.next() {
			time.Sleep(commit)
			f()
		}
	}
}

func (d *disk) next() func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return nil
	}
	f := d.queue[0]
	d.queue = d.queue[1:]
	return f
}

// later keeps the order of everything that is about an incarnation.
func (d *disk) later(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost {
		return
	}
	d.queue = append(d.queue, f)
	select {
	case d.work <- struct{}{}:
	default:
	}
}

// Claim implements storage.Store.
func (d *disk) Claim(id storage.ID, done func(uint64, bool, error)) {
	d.later(func() { d.Store.Claim(id, done) })
}

// Release implements storage.Store.
func (d *disk) Release(id storage.ID, epoch uint64) {
	d.later(func() { d.Store.Release(id, epoch) })
}

// Submit implements storage.Store.
func (d *disk) Submit(b *storage.Batch, done func(error)) {
	d.later(func() { d.Store.Submit(b, done) })
}

// lose cuts the power: what is not durable is gone, and nobody hears of it.
func (d *disk) lose() {
	d.mu.Lock()
	d.queue = nil
	if !d.lost {
		d.lost = true
		close(d.work)
	}
	d.mu.Unlock()
	<-d.ended
}
