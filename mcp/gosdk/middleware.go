package gosdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"unicode/utf8"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// prepared holds the servers that have the middleware, and whether they know
// [toolCall]. A server that is gone leaves.
var prepared struct {
	sync.Mutex
	servers map[weak.Pointer[sdk.Server]]bool
}

// prepare gives a server the middleware, once: the outermost one, save for those that
// are added to a server after its first session. It reports whether the server knows
// [toolCall]; one that has sessions already (somebody else serves it too) does not,
// because the SDK reads its table of methods without a lock.
func prepare(s *sdk.Server) (knowsToolCall bool) {
	key := weak.Make(s)
	prepared.Lock()
	defer prepared.Unlock()
	if knows, done := prepared.servers[key]; done {
		return knows
	}
	if prepared.servers == nil {
		prepared.servers = map[weak.Pointer[sdk.Server]]bool{}
	}
	knowsToolCall = true
	for range s.Sessions() {
		knowsToolCall = false
		break
	}
	if knowsToolCall {
		addToolCall(s)
	}
	s.AddReceivingMiddleware(receive)
	prepared.servers[key] = knowsToolCall
	goruntime.AddCleanup(s, func(key weak.Pointer[sdk.Server]) {
		prepared.Lock()
		defer prepared.Unlock()
		delete(prepared.servers, key)
	}, key)
	return knowsToolCall
}

type aboutKey struct{}

// aboutFrom is the id of the request that a handler's context belongs to.
func aboutFrom(ctx context.Context) wire.ID {
	id, _ := ctx.Value(aboutKey{}).(wire.ID)
	return id
}

// receive is the receiving middleware: it tells the handler's context which request
// it works for, and makes sure that every request gets an answer. The SDK has no
// recover, and leaves a request unanswered whose result can't be encoded.
func receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		r := runtimeFrom(ctx)
		if r == nil {
			return next(ctx, method, req) // a connection that is not ours
		}
		x := req.GetExtra()
		if x == nil || len(x.Header[markHeader]) == 0 {
			return r.handle(ctx, next, "", method, req)
		}
		m := mark(x.Header[markHeader])
		x.Header = nil // it is nobody else's business, and the SDK keeps a session's last request
		id := m.id()
		ctx = context.WithValue(ctx, aboutKey{}, id)
		switch {
		case m.isToolCall():
			if req, err = m.toolCall(req); err != nil {
				return nil, err
			}
			method = toolsCall
		case method == carrier:
			init := r.takeInitialize(req)
			result, err = r.handle(withTrace(ctx, init.Params), next, id, initialize, init)
			r.answer(id, result, err)
			return nil, nil
		}
		growStack(0)
		return r.handle(withTrace(ctx, req.GetParams()), next, id, method, req)
	}
}

// handle has a request handled by what is behind the middleware; id is empty for a
// notification.
func (r *runtime) handle(ctx context.Context, next sdk.MethodHandler, id wire.ID, method string, req sdk.Request) (result sdk.Result, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("internal error: %s panicked", subject(method, req))}
		r.session.Logger().Error("a handler panicked", "method", method, "id", string(id), "panic", v, "stack", string(debug.Stack()))
		if v == nil && id != "" {
			// runtime.Goexit: the goroutine ends and the SDK never answers.
			_ = r.send(ctx, wire.NewError(id, wire.InternalError, fmt.Sprintf("internal error: %s gave up", subject(method, req)), nil))
		}
	}()
	result, err = next(ctx, method, req)
	if err == nil && result != nil {
		result, err = encodeResult(req, result)
	}
	returned = true
	return result, err
}

// growStack gives the goroutine, which the SDK has made for this request, the stack that
// decoding arguments and looking at them by their schema take. Else it grows in steps, and
// each one copies all frames: measured, 6 % of the processor time of a call that adds two
// numbers.
//
//go:noinline
func growStack(at int) byte {
	var room [10 << 10]byte
	return room[at] // so that it has to be there
}

// subject names what was called, for an error.
func subject(method string, req sdk.Request) string {
	switch p := req.GetParams().(type) {
	case *sdk.CallToolParamsRaw:
		return fmt.Sprintf("the tool %q", p.Name)
	case *sdk.GetPromptParams:
		return fmt.Sprintf("the prompt %q", p.Name)
	}
	return method
}

// encoded is a result as JSON on one line.
type encoded struct {
	sdk.ResultBase
	json []byte
}

func (e *encoded) MarshalJSON() ([]byte, error) { return e.json, nil }

// encodeResult encodes a result where a failure can still be answered.
func encodeResult(req sdk.Request, result sdk.Result) (sdk.Result, error) {
	done, err := encodeNow(result)
	if err != nil {
		return nil, err
	}
	if v, ok := req.(interface{ ProtocolVersion() string }); ok && v.ProtocolVersion() >= "2026-07-28" {
		return result, nil // the SDK adds to it: 2026-07-28 and later
	}
	return done, nil
}

// encodeNow encodes a result.
func encodeNow(result sdk.Result) (*encoded, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(result); err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	raw := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if string(raw) == "null" {
		return nil, errors.New("internal error: the handler returned neither a result nor an error")
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	return &encoded{json: raw}, nil
}
