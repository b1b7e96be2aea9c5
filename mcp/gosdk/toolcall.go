package gosdk

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// Tool calls take a way of their own to their handlers. The SDK decodes the params of
// each request twice, with a buffer of 32 KiB each time, which is most of what a small
// call costs. A request without params it does not decode at all: so a call goes in
// as [toolCall], a method that [prepare] adds to the server, with its params in its
// mark, and the middleware makes of it the tools/call that it is before any other
// middleware sees it.
const (
	toolCall  = "kalpa/tools/call"
	toolsCall = "tools/call"
)

// toolCallParams and toolCallResult are what the SDK needs for a method of one's own.
type (
	toolCallParams struct{ sdk.ParamsBase }
	toolCallResult struct{ sdk.ResultBase }
)

// addToolCall makes the server know the method. The handler is never reached, but by a
// client that uses the method.
func addToolCall(s *sdk.Server) {
	err := sdk.AddReceivingCustomMethod(s, toolCall, func(context.Context, *sdk.ServerSession, *toolCallParams) (*toolCallResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", toolCall)}
	})
	if err != nil {
		panic("gosdk: " + err.Error()) // only for methods of the protocol's
	}
}

// mark is what a request carries through the SDK: its id, and for a tool call the
// tool's name, the arguments and the _meta, as raw JSON or empty.
type mark []string

func (m mark) id() wire.ID      { return wire.ID(m[0]) }
func (m mark) isToolCall() bool { return len(m) == 4 }

// markToolCall takes a tools/call apart. It leaves to the SDK what it does not know
// and what is wrong.
func markToolCall(m wire.Message) (mark, bool) {
	call, known := mark{string(m.ID()), "", "", ""}, true
	gjson.ParseBytes(m.Params()).ForEach(func(k, v gjson.Result) bool {
		part, value := 0, v.Raw
		switch k.Str {
		case "name":
			part, value = 1, v.Str
		case "arguments":
			part = 2
		case "_meta":
			// With the protocol version in it, it is 2026-07-28 or later.
			if v.IsObject() && !strings.Contains(v.Raw, sdk.MetaKeyProtocolVersion) {
				part = 3
			}
		}
		known = part > 0 && call[part] == ""
		call[part] = value
		return known
	})
	return call, known && call[1] != ""
}

// toolCall makes the tools/call of a mark.
func (m mark) toolCall(req sdk.Request) (*sdk.CallToolRequest, error) {
	p := &sdk.CallToolParamsRaw{Name: m[1]}
	if m[2] != "" {
		p.Arguments = json.RawMessage(m[2])
	}
	if m[3] != "" {
		if err := json.Unmarshal([]byte(m[3]), &p.Meta); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("_meta: %v", err)}
		}
	}
	return &sdk.CallToolRequest{Session: req.GetSession().(*sdk.ServerSession), Params: p, Extra: req.GetExtra()}, nil
}
