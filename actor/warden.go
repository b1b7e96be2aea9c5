package actor

import pa "github.com/asynkron/protoactor-go/actor"

// warden is an isolate's actor: it spawns incarnations, which are its children.
type warden struct {
	props *pa.Props // of all of them
	next  *incarnation
}

type spawn struct{ inc *incarnation }

func newWarden(h *Host) *warden {
	w := &warden{}
	mailbox := h.o.Mailbox
	if mailbox == nil {
		mailbox = func() pa.Mailbox { return &w.next.mailbox }
	}
	w.props = pa.PropsFromProducer(func() pa.Actor { return w.next },
		pa.WithDispatcher(h.o.Dispatcher), pa.WithMailbox(mailbox))
	return w
}

func (w *warden) Receive(ctx pa.Context) {
	if m, ok := ctx.Message().(*spawn); ok {
		w.next = m.inc
		pid := ctx.Spawn(w.props)
		w.next = nil
		m.inc.spawned(pid)
	}
}
