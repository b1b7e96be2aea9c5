package gosdk_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/gosdk"
	"github.com/kalpahost/kalpa/mcp/gosdk/gosdktest"
	"github.com/kalpahost/kalpa/mcp/wire"
)

func TestCloseEndsHandlersAndWaitsForThem(t *testing.T) {
	running, returned := make(chan bool), make(chan bool)
	h := gosdktest.Start(t, shared(map[string]handler{
		"wait": func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			running <- true
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond)
			close(returned)
			return text("too late"), nil
		},
		"ask": func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			running <- true
			_, err := req.Session.ListRoots(ctx, nil) // never answered
			return nil, err
		},
	}), gosdktest.Options{})
	h.GoCall("wait", none{})
	<-running
	h.GoCall("ask", none{})
	<-running
	h.Close()
	select {
	case <-returned:
	default:
		t.Error("Close returned before the handler")
	}
	before := len(h.Sent())
	h.Close()
	if err := h.Runtime.Deliver(t.Context(), wire.NewRequest("99", "ping", nil)); !errors.Is(err, mcp.ErrReset) {
		t.Errorf("Deliver after Close: %v, want ErrReset", err)
	}
	select {
	case err := <-h.Exited():
		t.Errorf("a closed runtime has exited: %v", err)
	default:
	}
	if after := len(h.Sent()); after != before {
		t.Errorf("a closed runtime sends: %v", h.Sent()[before:])
	}
}

func TestCloseIsBoundedByItsContextWhileAHandlerHangs(t *testing.T) {
	running, hang, gone := make(chan bool), make(chan bool), make(chan error)
	var closed atomic.Bool
	h := gosdktest.Start(t, shared(map[string]handler{
		"hang": func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			running <- true
			<-hang
			gone <- req.Session.NotifyProgress(context.Background(), &sdk.ProgressNotificationParams{ProgressToken: "late"})
			return text("late"), nil
		},
	}), gosdktest.Options{Send: func(_ context.Context, m wire.Message, _ wire.ID) error {
		if closed.Load() {
			t.Errorf("the session is used after Close: %s", m)
		}
		return nil
	}})
	h.GoCall("hang", none{})
	<-running
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := h.Runtime.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v, want that its time is over", err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("Close took %v", d)
	}
	closed.Store(true)
	before := len(h.Sent())
	close(hang)
	if err := <-gone; err == nil {
		t.Error("an abandoned handler could send")
	}
	h.Close() // now it can
	if after := len(h.Sent()); after != before {
		t.Errorf("an abandoned handler reached the client: %v", h.Sent()[before:])
	}
}

func TestAServerThatEndsItsConnectionHasExited(t *testing.T) {
	started := make(chan *sdk.ServerSession, 1)
	h := gosdktest.Start(t, shared(map[string]handler{
		"leave": func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			started <- req.Session
			return text("bye"), nil
		},
	}), gosdktest.Options{})
	h.Call("leave", none{})
	if err := (<-started).Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-h.Exited(); err == nil || !strings.Contains(err.Error(), "closed its connection") {
		t.Errorf("Exited: %v", err)
	}
	if err := h.Runtime.Deliver(t.Context(), wire.NewRequest("9", "ping", nil)); err == nil {
		t.Error("Deliver to a runtime that has exited: no error")
	}
}

func TestARuntimeThatCannotSendHasExited(t *testing.T) {
	broken := errors.New("the log is full")
	h := gosdktest.Start(t, shared(nil), gosdktest.Options{Send: func(_ context.Context, m wire.Message, _ wire.ID) error {
		if m.Kind() == wire.Response && m.ID() == "2" {
			return broken
		}
		return nil
	}})
	h.Go("ping", nil)
	if err := <-h.Exited(); !errors.Is(err, broken) {
		t.Errorf("Exited: %v, want %v", err, broken)
	}
}

// A send that blocks (the client does not read) ends with the runtime, whatever
// context the handler gave it.
func TestCloseEndsASendThatBlocks(t *testing.T) {
	blocked := make(chan bool, 2)
	h := gosdktest.Start(t, shared(map[string]handler{
		"notify": func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			return text(""), req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: "t"})
		},
	}), gosdktest.Options{Send: func(ctx context.Context, m wire.Message, _ wire.ID) error {
		if m.ID() == "2" || m.Kind() == wire.Notification {
			blocked <- true
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}})
	h.Go("ping", nil)
	<-blocked
	h.GoCall("notify", none{})
	<-blocked
	h.Close()
}

func TestASendThatAHandlerGivesUpEndsNothingElse(t *testing.T) {
	h := gosdktest.Start(t, shared(map[string]handler{
		"notify": func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: "t"})
			return text("%v", err), nil
		},
	}), gosdktest.Options{Send: func(ctx context.Context, m wire.Message, _ wire.ID) error {
		if m.Kind() == wire.Notification {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}})
	for range 2 {
		if got := h.Call("notify", none{}).Text(); !strings.Contains(got, "context") {
			t.Errorf("notify: %q", got)
		}
	}
}

// The middleware is added to a shared server once, not with each session.
func TestManySessionsMakeAServerNoSlower(t *testing.T) {
	p := shared(map[string]handler{
		"depth": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return text("%d", runtime.Callers(0, make([]uintptr, 1000))), nil
		},
	})
	first := gosdktest.Start(t, p, gosdktest.Options{}).Call("depth", none{}).Text()
	for range 20 {
		if got := gosdktest.Start(t, p, gosdktest.Options{}).Call("depth", none{}).Text(); got != first {
			t.Fatalf("the stack is %s deep, and was %s in the first session", got, first)
		}
	}
}

func TestASessionsServerGoesWithIt(t *testing.T) {
	gone := make(chan bool)
	func() {
		h := gosdktest.Start(t, gosdk.Plugin(func(context.Context, mcp.Session) (*sdk.Server, error) {
			server := newServer(map[string]handler{"a": nil})
			runtime.AddCleanup(server, func(gone chan bool) { close(gone) }, gone)
			return server, nil
		}), gosdktest.Options{})
		h.Do("tools/list", nil)
		h.Close()
		h.Runtime = closed{}
	}()
	for range 200 {
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the server of a closed runtime is still held")
}

// closed stands for a runtime that is gone.
type closed struct{ mcp.Runtime }

func (closed) Close(context.Context) error { return nil }
