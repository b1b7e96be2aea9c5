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
	switch m := ctx.Message().(type) {
	case *spawn:
		w.next = m.inc
		pid := ctx.Spawn(w.props)
		w.next = nil
		m.inc.spawned(pid)
	case *pa.Terminated:
		forget(ctx.Children())
	}
}

// forget lets go of a child that has ended. The set of children keeps it behind its end,
// and with it all that the incarnation had, until as many are there again.
func forget(children []*pa.PID) {
	if n := len(children); n < cap(children) {
		children[:n+1][n] = nil
	}
}
