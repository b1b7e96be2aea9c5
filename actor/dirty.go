package actor

// backpressure holds an object's next batch up while it has too much under way that
// is not yet written: who writes faster than the disk waits for it, instead of filling
// the cache that its isolate shares. The object keeps the baton, as in any storage
// operation, and what it writes next is one commit all the same.
func (inc *incarnation) backpressure() {
	limit := inc.h.o.DirtyLimit
	if inc.gate.below(limit, nil) {
		return
	}
	room := inc.h.o.Runner.Signal()
	for !inc.gate.below(limit, room) {
		room.Wait()
	}
}
