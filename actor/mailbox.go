package actor

import (
	"sync"

	pa "github.com/asynkron/protoactor-go/actor"
)

// mailbox is that of an incarnation by default, and a part of it. There are as many as
// objects in memory, and next to nothing is in them: of tokens it only keeps how many
// there are.
type mailbox struct {
	inc     *incarnation
	invoker pa.MessageInvoker

	mu        sync.Mutex
	others    *letter // what is not a token, oldest first
	tokens    int32
	running   bool
	suspended bool
}

// letter is a message that is not a token: an actor gets a few in its life.
type letter struct {
	message any
	next    *letter
}

// post adds a letter. Called with the lock.
func (m *mailbox) post(message any) {
	at := &m.others
	for *at != nil {
		at = &(*at).next
	}
	*at = &letter{message: message}
}

func (m *mailbox) RegisterHandlers(i pa.MessageInvoker, _ pa.Dispatcher) { m.invoker = i }

func (m *mailbox) Start() {}

func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.tokens) // others are no events
}

func (m *mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	if _, ok := message.(token); ok {
		m.tokens++
	} else {
		m.post(message)
	}
	m.schedule()
}

func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.post(message)
	m.schedule()
}

// schedule is called with the lock, and gives it back.
func (m *mailbox) schedule() {
	idle := !m.running
	m.running = true
	m.mu.Unlock()
	if idle {
		m.inc.h.o.Dispatcher.Schedule(m.run)
	}
}

// run handles what there is: tokens last.
func (m *mailbox) run() {
	var message any
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, message)
			m.run()
		}
	}()
	for {
		switch message = m.next(); message.(type) {
		case nil:
			return
		case *pa.SuspendMailbox, *pa.ResumeMailbox:
			m.mu.Lock()
			_, m.suspended = message.(*pa.SuspendMailbox)
			m.mu.Unlock()
		case pa.SystemMessage:
			m.invoker.InvokeSystemMessage(message)
		default:
			m.invoker.InvokeUserMessage(message)
		}
	}
}

// next takes a message; nil: there is none, and the mailbox rests. While it is
// suspended, only what the system sends is taken.
func (m *mailbox) next() (message any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := &m.others; *at != nil; at = &(*at).next {
		message := (*at).message
		if _, system := message.(pa.SystemMessage); system || !m.suspended {
			*at = (*at).next
			return message
		}
	}
	if m.tokens > 0 && !m.suspended {
		m.tokens--
		return token{}
	}
	m.running = false
	return nil
}
