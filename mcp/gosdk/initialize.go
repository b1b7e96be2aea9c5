package gosdk

import (
	"bytes"
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/segmentio/encoding/json"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// An initialize takes a way of its own too, for the reason that [toolCall] has one. The
// SDK takes no method of one's own before it, so it goes in as the notification that
// follows it, without params; it is an initialize because it has a mark, which no
// notification has. The middleware makes of it the request that it is before any other
// middleware sees it, and answers it, since the SDK answers no notification.
const (
	initialize = "initialize"
	carrier    = "notifications/initialized"
)

// maxDepth is how deep the SDK lets values lie in each other.
const maxDepth = 1000

// initializeParams are the SDK's, who has them twice: with roots that are not there
// told from those that are empty.
type initializeParams struct {
	sdk.InitializeParams
	Capabilities *struct {
		sdk.ClientCapabilities
		Roots *sdk.RootCapabilities `json:"roots,omitempty"`
	} `json:"capabilities"`
}

// decodeInitialize decodes the params of an initialize as the SDK does; nil where it has
// to say itself what is wrong with them.
func decodeInitialize(params []byte) *sdk.InitializeParams {
	if bytes.Count(params, []byte{'{'})+bytes.Count(params, []byte{'['}) > maxDepth {
		return nil
	}
	var p *initializeParams
	if _, err := json.Parse(params, &p, json.DontMatchCaseInsensitiveStructFields); err != nil || p == nil {
		return nil
	}
	all := p.InitializeParams
	if all.Meta[sdk.MetaKeyProtocolVersion] != nil {
		return nil // 2026-07-28 or later has no initialize, and the SDK says so
	}
	if c := p.Capabilities; c != nil {
		known := c.ClientCapabilities
		if known.RootsV2 = c.Roots; c.Roots != nil {
			known.Roots = *c.Roots //nolint:staticcheck // the SDK still fills it, for servers that read it
		}
		all.Capabilities = &known
	}
	return &all
}

// takeInitialize is the initialize that a request carries for the middleware.
func (r *runtime) takeInitialize(req sdk.Request) *sdk.ServerRequest[*sdk.InitializeParams] {
	init := &sdk.ServerRequest[*sdk.InitializeParams]{Session: req.GetSession().(*sdk.ServerSession), Params: r.init, Extra: req.GetExtra()}
	r.init = nil // the server has it
	return init
}

// answer sends what has become of the initialize.
func (r *runtime) answer(id wire.ID, result sdk.Result, err error) {
	done, ok := result.(*encoded)
	if err == nil && !ok {
		done, err = encodeNow(result)
	}
	var m wire.Message
	if err != nil {
		m = encodeError(id, err)
	} else {
		m = wire.NewResult(id, done.json)
	}
	_ = r.send(context.Background(), m) // one that can't be sent has ended the connection
}
