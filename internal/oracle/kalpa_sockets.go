package oracle

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kalpahost/kalpa/actor"
)

// Connect serves World.
func (w *Kalpa) Connect(ctx context.Context, socket, object string) (Socket, error) {
	address, err := w.life.listen(ctx)
	if err != nil {
		return nil, err
	}
	q := url.Values{"socket": {socket}, "object": {object}}
	return dial(ctx, "ws://"+address+"/?"+q.Encode())
}

// network is where a process listens. Its end is that of a process: connections break.
type network struct {
	net.Listener
	server *http.Server

	mu    sync.Mutex
	conns []net.Conn
}

// Accept serves net.Listener.
func (n *network) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil {
		n.mu.Lock()
		n.conns = append(n.conns, c)
		n.mu.Unlock()
	}
	return c, err
}

func (n *network) end() {
	n.server.Close() //nolint:errcheck // its end is what is wanted
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.Close() //nolint:errcheck // as above
	}
}

func (l *process) listen(ctx context.Context) (address string, err error) {
	if l.network == nil {
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		l.network = &network{Listener: listener, server: &http.Server{ReadHeaderTimeout: Patience, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			l.host.Stub(l.id(r.URL.Query().Get("object"))).ServeHTTP(rw, r)
		})}}
		go l.network.server.Serve(l.network) //nolint:errcheck // it ends with the process
	}
	return l.network.Addr().String(), nil
}

// exchange is what a socket's event is about.
type exchange struct {
	socket string // the client's name for it
	w      http.ResponseWriter
	r      *http.Request
	ws     *actor.WebSocket
	m      actor.Message
}

// ServeHTTP serves http.Handler: it is asked for a socket.
func (o *thing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{socket: r.URL.Query().Get("socket"), w: w, r: r}
	err := o.all(r.Context(), o.l.handler(o.name, "connect", 0), &run{label: "connect " + x.socket, x: x})
	if err != nil && !o.gone(r.Context()) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// WebSocketMessage serves actor.WebSocketMessager.
func (o *thing) WebSocketMessage(ctx context.Context, ws *actor.WebSocket, m actor.Message) error {
	text := quote(m.Text())
	if m.Binary {
		text = "bytes " + text
	}
	return o.onSocket(ctx, "message", text, &exchange{ws: ws, m: m})
}

// WebSocketClose serves actor.WebSocketCloser.
func (o *thing) WebSocketClose(ctx context.Context, ws *actor.WebSocket, c actor.Close) error {
	return o.onSocket(ctx, "close", fmt.Sprintf("code=%d reason=%s wasClean=%t", c.Code, quote(c.Reason), c.Clean), &exchange{ws: ws})
}

func (o *thing) onSocket(ctx context.Context, event, text string, x *exchange) error {
	n := o.l.times(event + " " + o.name)
	label := fmt.Sprintf("%s %d", event, n)
	o.say("%s %s", label, text)
	err := o.all(ctx, o.l.handler(o.name, event, n), &run{label: label, x: x})
	switch {
	case o.gone(ctx):
	case err != nil:
		o.say("%s failed %s", label, describe(err))
	default:
		o.say("%s ended", label)
	}
	return err
}

// accept accepts the socket that the event asks for.
func (o *thing) accept(r *run, tags ...string) error {
	ws, err := o.s.AcceptWebSocket(r.x.w, r.x.r, tags...)
	if err == nil {
		r.x.ws = ws
	}
	return err
}

// tagged are the object's sockets, those with a tag if there is one.
func (o *thing) tagged(op Op, n int) ([]*actor.WebSocket, error) {
	return o.s.WebSockets(op.Args[min(n, len(op.Args)):]...)
}

func init() {
	for name, f := range map[string]func(o *thing, op Op, r *run) (string, error){
		"accept": func(o *thing, op Op, r *run) (string, error) {
			return "", o.accept(r, append([]string{"name:" + r.x.socket}, op.Args...)...)
		},
		"acceptBare": func(o *thing, _ Op, r *run) (string, error) { return "", o.accept(r) },
		"acceptTags": func(o *thing, op Op, r *run) (string, error) { return "", o.accept(r, op.Args...) },
		"acceptTwice": func(o *thing, _ Op, r *run) (string, error) {
			return "", twice(func() error { return o.accept(r, "name:"+r.x.socket) })
		},
		"send": func(_ *thing, op Op, r *run) (string, error) { return "", r.x.ws.Send(op.Args[0]) },
		"echo": func(_ *thing, _ Op, r *run) (string, error) {
			if r.x.m.Binary {
				return "", r.x.ws.SendBinary(r.x.m.Data)
			}
			return "", r.x.ws.Send(r.x.m.Text())
		},
		"broadcast": func(o *thing, op Op, _ *run) (string, error) {
			all, err := o.tagged(op, 1)
			for _, ws := range all {
				if err := ws.Send(op.Args[0]); err != nil {
					return "", err
				}
			}
			return strconv.Itoa(len(all)), err
		},
		"sockets": func(o *thing, op Op, _ *run) (string, error) {
			all, err := o.tagged(op, 0)
			var names []string
			for _, ws := range all {
				names = append(names, append(ws.Tags(), "untagged")[0])
			}
			slices.Sort(names)
			return "[" + strings.Join(names, " ") + "]", err
		},
		"tags":   func(_ *thing, _ Op, r *run) (string, error) { return "[" + strings.Join(r.x.ws.Tags(), " ") + "]", nil },
		"attach": func(_ *thing, op Op, r *run) (string, error) { return "", r.x.ws.Attach(op.Args[0]) },
		"attachment": func(_ *thing, _ Op, r *run) (string, error) {
			var v string
			if ok, err := r.x.ws.Attachment(&v); !ok {
				return "undefined", err
			}
			return word(v), nil
		},
		"closeSocket": func(_ *thing, op Op, r *run) (string, error) {
			code, err := strconv.Atoi(op.Args[0])
			if err != nil {
				return "", err
			}
			return "", r.x.ws.Close(code, op.Args[1])
		},
		"state": func(_ *thing, _ Op, r *run) (string, error) {
			if r.x.ws.Open() {
				return "OPEN", nil
			}
			return "CLOSING", nil
		},
		"autoResponse": func(o *thing, op Op, _ *run) (string, error) {
			if len(op.Args) == 0 {
				return "", o.s.ClearAutoResponse()
			}
			return "", o.s.SetAutoResponse(op.Args[0], op.Args[1])
		},
		"getAutoResponse": func(o *thing, _ Op, _ *run) (string, error) {
			request, response, ok := o.s.AutoResponse()
			if !ok {
				return "null", nil
			}
			return quote(request) + " " + quote(response), nil
		},
		"autoResponded": func(o *thing, _ Op, _ *run) (string, error) {
			all, err := o.s.WebSockets()
			var words []string
			for _, ws := range all {
				words = append(words, map[bool]string{true: "no", false: "yes"}[ws.AutoResponded().IsZero()])
			}
			return strings.Join(words, " "), err
		},
	} {
		ops[name] = func(_ context.Context, o *thing, op Op, r *run) (string, error) { return f(o, op, r) }
	}
}

func twice(f func() error) error {
	if err := f(); err != nil {
		return err
	}
	return f()
}
