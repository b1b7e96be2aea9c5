package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// markHeader carries a request's mark through the SDK, in the header that it would
// take from HTTP. The SDK keeps to itself which request a handler works for.
const markHeader = "Kalpa-Mark"

// decode makes the SDK's form of a message, without decoding its parts.
func (r *runtime) decode(m wire.Message) (jsonrpc.Message, error) {
	if m.Kind() == wire.Response {
		id, err := decodeID(m.ID())
		if err != nil {
			return nil, err
		}
		if !m.IsError() {
			return &jsonrpc.Response{ID: id, Result: m.Result()}, nil
		}
		e := new(jsonrpc.Error)
		if err := json.Unmarshal(m.Error(), e); err != nil {
			e = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client sent a malformed error"}
		}
		return &jsonrpc.Response{ID: id, Error: e}, nil
	}
	req := &jsonrpc.Request{Method: m.Method()}
	if p := m.Params(); len(p) > 0 {
		req.Params = p // nil when there are none: the SDK decodes what is not nil
	}
	if m.Kind() == wire.Request {
		id, err := decodeID(m.ID())
		if err != nil {
			return nil, err
		}
		req.ID = id
		about := mark{string(m.ID())}
		switch {
		case !r.direct:
		case m.Is(toolsCall):
			if call, ok := markToolCall(m); ok {
				about, req.Method, req.Params = call, toolCall, nil
			}
		case m.Is(initialize) && !r.begun:
			r.begun = true
			if r.init = decodeInitialize(m.Params()); r.init != nil {
				req.ID, req.Method, req.Params = jsonrpc.ID{}, carrier, nil
			}
		}
		req.Extra = r.extra(m.ID(), about)
	}
	return req, nil
}

// streamCloser is what a session may offer beyond [mcp.Session]: it ends the HTTP
// response that carries a request's stream and asks the client to come back after
// retry (zero: whenever it likes) for what follows.
type streamCloser interface {
	CloseStream(ctx context.Context, about wire.ID, retry time.Duration) error
}

func (r *runtime) extra(id wire.ID, m mark) *sdk.RequestExtra {
	x := &sdk.RequestExtra{Header: http.Header{markHeader: m}}
	if s, ok := r.session.(streamCloser); ok {
		x.CloseSSEStream = func(a sdk.CloseSSEStreamArgs) {
			if err := s.CloseStream(r.ctx, id, a.RetryAfter); err != nil {
				r.session.Logger().Warn("closing a request's stream", "id", string(id), "error", err)
			}
		}
	}
	return x
}

// decodeID makes the SDK's form of an id. The SDK takes numbers as float64 and keeps
// them as int64: what does not come back the same is refused, or the answer would
// carry another id.
func decodeID(id wire.ID) (jsonrpc.ID, error) {
	if n, err := strconv.ParseInt(string(id), 10, 64); err == nil && n == int64(float64(n)) && strconv.FormatInt(n, 10) == string(id) {
		return jsonrpc.MakeID(float64(n))
	}
	var s string
	if err := json.Unmarshal([]byte(id), &s); err != nil || wire.StringID(s) != id {
		return jsonrpc.ID{}, fmt.Errorf("the Go SDK can't carry the id %.40s: it must be an integer or a string", id)
	}
	return jsonrpc.MakeID(s)
}

func encodeID(id jsonrpc.ID) wire.ID {
	switch v := id.Raw().(type) {
	case int64:
		return wire.ID(strconv.FormatInt(v, 10))
	case string:
		return wire.StringID(v)
	}
	return ""
}

// encode makes a message of the SDK's, whose parts are encoded already: valid JSON
// on one line.
func encode(m jsonrpc.Message) (wire.Message, error) {
	switch m := m.(type) {
	case *jsonrpc.Response:
		if m.Error != nil {
			return encodeError(encodeID(m.ID), m.Error), nil //nolint:nilerr // the error is the message
		}
		return wire.NewResult(encodeID(m.ID), m.Result), nil
	case *jsonrpc.Request:
		params := m.Params
		switch {
		case string(params) == "null":
			params = nil
		case len(params) > 0 && params[0] != '{' && params[0] != '[':
			return wire.Message{}, fmt.Errorf("%s: params must be an object", m.Method)
		}
		if m.IsCall() {
			return wire.NewRequest(encodeID(m.ID), m.Method, params), nil
		}
		return wire.NewNotification(m.Method, params), nil
	}
	return wire.Message{}, fmt.Errorf("unexpected message %T", m)
}

// encodeError says what a client is told of an error. Errors without a code are
// internal errors: the SDK would send the code 0.
func encodeError(id wire.ID, err error) wire.Message {
	code := wire.InternalError
	var data any
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		if e.Code != 0 {
			code = wire.Code(e.Code)
		}
		if json.Valid(e.Data) {
			data = e.Data
		}
	}
	return wire.NewError(id, code, err.Error(), data)
}
