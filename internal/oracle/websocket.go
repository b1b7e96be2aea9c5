package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/coder/websocket"
)

// Connect serves World.
func (w *Workerd) Connect(ctx context.Context, socket, object string) (Socket, error) {
	q := url.Values{"socket": {socket}, "object": {object}}
	return dial(ctx, "ws://"+w.base+"/socket?"+q.Encode())
}

// client is a Socket over the network.
type client struct{ conn *websocket.Conn }

func dial(ctx context.Context, address string) (Socket, error) {
	conn, res, err := websocket.Dial(ctx, address, nil) //nolint:bodyclose // the library closes it
	switch {
	case err == nil:
		conn.SetReadLimit(16 << 20)
		return client{conn}, nil
	case res != nil:
		return nil, errors.New(res.Status)
	default:
		return nil, err
	}
}

func (c client) Send(ctx context.Context, text string, binary bool) error {
	kind := websocket.MessageText
	if binary {
		kind = websocket.MessageBinary
	}
	return c.conn.Write(ctx, kind, []byte(text))
}

func (c client) Receive(ctx context.Context) (string, error) {
	kind, b, err := c.conn.Read(ctx)
	var closed websocket.CloseError
	switch {
	case errors.As(err, &closed):
		return fmt.Sprintf("closed %d %q", int(closed.Code), closed.Reason), nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, io.EOF), err != nil:
		return "lost", nil //nolint:nilerr // the connection's end is what was waited for
	case kind == websocket.MessageBinary:
		return "received bytes " + strconv.Quote(string(b)), nil
	default:
		return "received " + strconv.Quote(string(b)), nil
	}
}

// Close closes as a client does; what it gets back it reads with Receive.
func (c client) Close(_ context.Context, code int, reason string) error {
	c.conn.Close(websocket.StatusCode(code), reason) //nolint:errcheck // the other side may have been first
	return nil
}
