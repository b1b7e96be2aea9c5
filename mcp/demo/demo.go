package demo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/gosdk"
)

const instructions = `A demonstration server. "incr" counts durably, "sleep" reports progress, "ask" asks you something; ` +
	`"fail", "alloc" and "spin" provoke failures on purpose.`

// Plugin returns the demonstration server.
func Plugin() mcp.Plugin {
	server := newServer()
	hosted := gosdk.Plugin(func(context.Context, mcp.Session) (*sdk.Server, error) { return server, nil })
	return mcp.PluginFunc(func(ctx context.Context, s mcp.Session) (mcp.Runtime, error) {
		return hosted.Build(ctx, &session{Session: s})
	})
}

// session is a session with what its runtime keeps in memory.
type session struct {
	mcp.Session
	memory memory
}

// sessionFrom is the session of a handler.
func sessionFrom(ctx context.Context) *session { return gosdk.SessionFrom(ctx).(*session) }

func newServer() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "kalpa-demo", Title: "kalpa demo", Version: "1"}, &sdk.ServerOptions{
		Instructions: instructions,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	for _, add := range []func(*sdk.Server){
		addEcho, addAdd, addIncr, addSleep, addAsk, addFail, addAlloc, addFree, addSpin,
	} {
		add(server)
	}
	return server
}

// none is the input of a tool that takes none.
type none struct{}

// tool adds a tool whose handler answers with a text or an error. It does what
// [sdk.AddTool] does for input, at a fraction of the cost: that decodes with buffers of
// 32 KiB, and these tools are there to be called often.
func tool[In any](server *sdk.Server, t *sdk.Tool, f func(context.Context, *sdk.CallToolRequest, In) (string, error)) {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		panic("demo: " + err.Error())
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		panic("demo: " + err.Error())
	}
	t.InputSchema = schema
	server.AddTool(t, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var text string
		in, err := decode[In](req.Params.Arguments, resolved)
		if err == nil {
			text, err = f(ctx, req, in)
		}
		if err != nil {
			text = err.Error()
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: err != nil}, nil
	})
}

// decode checks a tool's arguments and decodes them.
func decode[In any](arguments json.RawMessage, schema *jsonschema.Resolved) (in In, err error) {
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = json.RawMessage("{}")
	}
	var v any
	if err := json.Unmarshal(arguments, &v); err != nil {
		return in, fmt.Errorf("the arguments are invalid: %w", err)
	}
	if err := schema.Validate(v); err != nil {
		return in, fmt.Errorf("the arguments are invalid: %w", err)
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return in, fmt.Errorf("the arguments are invalid: %w", err)
	}
	return in, nil
}

// reads annotates a tool that changes nothing.
func reads() *sdk.ToolAnnotations {
	return &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(false)}
}

// changes annotates a tool that changes the session, and destroys nothing.
func changes(idempotent bool) *sdk.ToolAnnotations {
	return &sdk.ToolAnnotations{IdempotentHint: idempotent, DestructiveHint: new(false), OpenWorldHint: new(false)}
}

// between says what is wrong with a number, if anything.
func between(name string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s must be between %d and %d, not %d", name, least, most, n)
	}
	return nil
}
