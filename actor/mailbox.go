package actor

import (
	"sync"

	pa "github.com/asynkron/protoactor-go/actor"
)

// mailbox is an incarnation's, and a part of it. There are as many as objects in memory,
// and next to nothing is in them: of tokens it only keeps how many there are.
//
// One goroutine at a time has it, and runs the code that handles what is in it. It gives
// the mailbox away in the middle of that code, where the code awaits; it loses it, for
// good, when the incarnation is reset. Another goroutine goes on with what is there.
type mailbox struct {
	inc     *incarnation
	invoker pa.MessageInvoker

	mu     sync.Mutex
	others *letter // what is not a token, oldest first
	tokens int32
	had    bool // by a goroutine, or one is asked for
}

// letter is a message that is not a token: an actor gets a few in its life.
type letter struct {
	message any
	next    *letter
}

func (m *mailbox) RegisterHandlers(i pa.MessageInvoker, _ pa.Dispatcher) { m.invoker = i }

func (m *mailbox) Start() {}

func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.tokens) // others are no events
}

func (m *mailbox) PostUserMessage(message any) { m.post(message) }

func (m *mailbox) PostSystemMessage(message any) { m.post(message) }

func (m *mailbox) post(message any) {
	m.mu.Lock()
	at := &m.others
	for *at != nil {
		at = &(*at).next
	}
	*at = &letter{message: message}
	m.wake()
}

// poke adds a token.
func (m *mailbox) poke() {
	m.mu.Lock()
	m.tokens++
	m.wake()
}

// wake asks for a goroutine unless one has the mailbox. Called with the lock, which it
// gives back.
func (m *mailbox) wake() {
	rested := !m.had
	m.had = true
	m.mu.Unlock()
	if rested {
		m.inc.h.o.Dispatcher.Schedule(m.run)
	}
}

// run goes on with the mailbox, which the goroutine that calls it has.
func (m *mailbox) run() {
	for range max(1, m.inc.h.o.Dispatcher.Throughput()) {
		if !m.step() {
			return
		}
	}
	m.pass()
}

// pass gives the mailbox to another goroutine, if there is anything to do.
func (m *mailbox) pass() {
	m.mu.Lock()
	m.had = m.tokens > 0 || m.others != nil
	busy := m.had
	m.mu.Unlock()
	if busy {
		m.inc.h.o.Dispatcher.Schedule(m.run)
	}
}

// claim takes the mailbox if nobody has it; then there is nothing in it.
func (m *mailbox) claim() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.had {
		return false
	}
	m.had = true
	return true
}

// step handles a message, tokens last. False: the goroutine does not have the mailbox
// any more.
func (m *mailbox) step() bool {
	m.mu.Lock()
	next := m.others
	switch {
	case next != nil:
		m.others = next.next
	case m.tokens > 0:
		m.tokens--
	default:
		m.had = false
		m.mu.Unlock()
		return false
	}
	m.mu.Unlock()
	if next == nil {
		return m.inc.event()
	}
	return m.deliver(next.message)
}

// deliver handles a message that is not a token. The object's own code never runs beneath
// protoactor's context: another goroutine may go on with that.
func (m *mailbox) deliver(message any) (has bool) {
	defer func() {
		if r := recover(); r != nil {
			m.inc.breakWith(m.inc.panicked("run", r))
			has = true
		}
	}()
	switch message.(type) {
	case *pa.Started:
		return m.inc.start()
	case evict:
		m.inc.passivate()
	case reclaim:
		return m.inc.passivate() || m.inc.giveBack()
	default:
		m.invoker.InvokeSystemMessage(message)
	}
	return true
}
