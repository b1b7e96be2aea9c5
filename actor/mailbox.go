package actor

import (
	"sync"

	pa "github.com/asynkron/protoactor-go/actor"
)

// mailbox is that of an incarnation by default. There are as many as objects in memory,
// and next to nothing is in them: of tokens it only keeps how many there are.
type mailbox struct {
	invoker    pa.MessageInvoker
	dispatcher pa.Dispatcher

	mu        sync.Mutex
	tokens    int
	user      []any // other than tokens
	system    []any
	running   bool
	suspended bool
}

func newMailbox() pa.Mailbox { return &mailbox{} }

func (m *mailbox) RegisterHandlers(i pa.MessageInvoker, d pa.Dispatcher) {
	m.invoker, m.dispatcher = i, d
}

func (m *mailbox) Start() {}

func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tokens + len(m.user)
}

func (m *mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	if _, ok := message.(token); ok {
		m.tokens++
	} else {
		m.user = append(m.user, message)
	}
	m.schedule()
}

func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.system = append(m.system, message)
	m.schedule()
}

// schedule is called with the lock, and gives it back.
func (m *mailbox) schedule() {
	idle := !m.running
	m.running = true
	m.mu.Unlock()
	if idle {
		m.dispatcher.Schedule(m.run)
	}
}

// run handles what there is: what the system has sent first.
func (m *mailbox) run() {
	var message any
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, message)
			m.run()
		}
	}()
	for {
		var system bool
		if message, system = m.next(); message == nil {
			return
		}
		switch message.(type) {
		case *pa.SuspendMailbox, *pa.ResumeMailbox:
			m.mu.Lock()
			_, m.suspended = message.(*pa.SuspendMailbox)
			m.mu.Unlock()
		default:
			if system {
				m.invoker.InvokeSystemMessage(message)
			} else {
				m.invoker.InvokeUserMessage(message)
			}
		}
	}
}

// next takes a message; nil: there is none, and the mailbox rests.
func (m *mailbox) next() (message any, system bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case len(m.system) > 0:
		if message, m.system = m.system[0], m.system[1:]; len(m.system) == 0 {
			m.system = nil
		}
		return message, true
	case m.suspended:
	case m.tokens > 0:
		m.tokens--
		return token{}, false
	case len(m.user) > 0:
		if message, m.user = m.user[0], m.user[1:]; len(m.user) == 0 {
			m.user = nil
		}
		return message, false
	}
	m.running = false
	return nil, false
}
