package actor

import "slices"

// hook is what is called when an incarnation is reset. All of one are a list: most
// events register one, and take it back.
type hook struct {
	inc          *incarnation
	f            func(error)
	older, newer *hook
}

// OnBreak registers f to be called when the incarnation is reset, from whichever
// goroutine resets it; f must not block. forget takes the registration back.
func (t *Turn) OnBreak(f func(error)) (forget func()) {
	inc := t.inc
	inc.mu.Lock()
	if err := inc.err(); err != nil {
		inc.mu.Unlock()
		f(err)
		return func() {}
	}
	k := &hook{inc: inc, f: f, older: inc.hooks}
	if k.older != nil {
		k.older.newer = k
	}
	inc.hooks = k
	inc.mu.Unlock()
	return k.forget
}

func (k *hook) forget() {
	inc := k.inc
	inc.mu.Lock()
	defer inc.mu.Unlock()
	if k.f == nil {
		return // it was called, or forgotten
	}
	k.f = nil
	if k.newer != nil {
		k.newer.older = k.older
	} else {
		inc.hooks = k.older
	}
	if k.older != nil {
		k.older.newer = k.newer
	}
}

// unhook calls them, in the order in which they were registered. None is registered
// after it.
func (inc *incarnation) unhook(err error) {
	inc.mu.Lock()
	var all []func(error)
	for k := inc.hooks; k != nil; k = k.older {
		all = append(all, k.f)
		k.f = nil
	}
	inc.hooks = nil
	inc.mu.Unlock()
	for _, f := range slices.Backward(all) {
		f(err)
	}
}
