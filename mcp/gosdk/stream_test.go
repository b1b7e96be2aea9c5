package gosdk_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/gosdk/gosdktest"
	"github.com/kalpahost/kalpa/mcp/wire"
)

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// polling is a session that can close a request's stream.
type polling struct {
	mcp.Session
	closed chan string
}

func (p polling) CloseStream(_ context.Context, about wire.ID, retry time.Duration) error {
	p.closed <- string(about) + " " + retry.String()
	return nil
}

func TestAHandlerCanEndItsStreamWhereTheHostCan(t *testing.T) {
	p := shared(map[string]handler{
		"poll": func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if req.Extra.CloseSSEStream == nil {
				return text("can't"), nil
			}
			req.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: time.Second})
			return text("closed"), nil
		},
	})
	closed := make(chan string, 1)
	able := mcp.PluginFunc(func(ctx context.Context, s mcp.Session) (mcp.Runtime, error) {
		return p.Build(ctx, polling{s, closed})
	})
	h := gosdktest.Start(t, able, gosdktest.Options{})
	if got := h.Call("poll", none{}); got.Text() != "closed" {
		t.Errorf("poll: %s", got)
	}
	if got := <-closed; got != "2 1s" {
		t.Errorf("CloseStream(%s)", got)
	}
	h = gosdktest.Start(t, p, gosdktest.Options{})
	if got := h.Call("poll", none{}); got.Text() != "can't" {
		t.Errorf("poll where the host can't: %s", got)
	}
}
