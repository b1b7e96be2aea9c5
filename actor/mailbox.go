package actor

import (
	"slices"
	"sync"

	pa "github.com/asynkron/protoactor-go/actor"
)

// mailbox is that of an incarnation by default. There are as many as objects in memory,
// and next to nothing is in them: of tokens it only keeps how many there are.
type mailbox struct {
	invoker    pa.MessageInvoker
	dispatcher pa.Dispatcher

	mu        sync.Mutex
	tokens    int32
	running   bool
	suspended bool
	others    []any // what is not a token
}

func newMailbox() pa.Mailbox { return &mailbox{} }

func (m *mailbox) RegisterHandlers(i pa.MessageInvoker, d pa.Dispatcher) {
	m.invoker, m.dispatcher = i, d
}

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
		m.others = append(m.others, message)
	}
	m.schedule()
}

func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.others = append(m.others, message)
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
	for i, message := range m.others {
		if _, system := message.(pa.SystemMessage); !system && m.suspended {
			continue
		}
		switch {
		case len(m.others) == 1:
			m.others = nil
		case i == 0:
			m.others[0] = nil
			m.others = m.others[1:]
		default:
			m.others = slices.Delete(m.others, i, i+1)
		}
		return message
	}
	if m.tokens > 0 && !m.suspended {
		m.tokens--
		return token{}
	}
	m.running = false
	return nil
}
