package actor

import "slices"

// hook is who is told when an incarnation is reset. All of one are a list: most events
// register one, and take it back.
type hook struct {
	inc          *incarnation
	who          loser // nil: it was told, or has been forgotten
	older, newer *hook
}

// loser loses what its incarnation was doing when that is reset. It must not block.
type loser interface{ lost(err error) }

type loserFunc func(error)

func (f loserFunc) lost(err error) { f(err) }

// OnBreak registers f to be called when the incarnation is reset, from whichever
// goroutine resets it; f must not block. forget takes the registration back.
func (t *Turn) OnBreak(f func(error)) (forget func()) {
	k := &hook{}
	k.register(t.inc, loserFunc(f))
	return k.forget
}

// register is OnBreak, once for a hook.
func (k *hook) register(inc *incarnation, who loser) {
	k.inc = inc
	inc.mu.Lock()
	if err := inc.err(); err != nil {
		inc.mu.Unlock()
		who.lost(err)
		return
	}
	k.who, k.older = who, inc.hooks
	if k.older != nil {
		k.older.newer = k
	}
	inc.hooks = k
	inc.mu.Unlock()
}

func (k *hook) forget() {
	inc := k.inc
	inc.mu.Lock()
	defer inc.mu.Unlock()
	if k.who == nil {
		return
	}
	k.who = nil
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
	var all []loser
	for k := inc.hooks; k != nil; k = k.older {
		all = append(all, k.who)
		k.who = nil
	}
	inc.hooks = nil
	inc.mu.Unlock()
	for _, who := range slices.Backward(all) {
		who.lost(err)
	}
}
