package stdio

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// A server's answer that can't be passed on must not leave its request to wait
// for ever: what can be read of it tells whose answer it was, and that request is
// answered with an error instead.

// invalidAnswer is the error in place of a response that is JSON and not valid;
// false when the line is no response.
func invalidAnswer(line []byte, why error) (wire.Message, bool) {
	var syntax *wire.SyntaxError
	if !errors.As(why, &syntax) || syntax.ID == "" || syntax.ID == "null" || gjson.GetBytes(line, "method").Exists() {
		return wire.Message{}, false
	}
	return wire.NewError(syntax.ID, wire.InternalError, "the server's answer is not valid: "+why.Error(), nil), true
}

// What the two ends of an over-long response look like, in the orders of members
// that SDKs write. The host's own ids are numbers.
var (
	idFirst     = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"\s*:`)
	answerFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"\s*:`)
	idLast      = regexp.MustCompile(`,\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
	noAnswer    = regexp.MustCompile(`^\s*\{\s*(?:"(?:jsonrpc|id)"\s*:\s*(?:"[^"]*"|\d+)\s*,\s*)*"method"\s*:`)
)

// longAnswer is the error in place of a response that is too long. lost is true
// when the line may have been a response and its id can't be read.
func longAnswer(l longLine, max int) (m wire.Message, ok, lost bool) {
	id := idFirst.FindSubmatch(l.head)
	if id == nil && answerFirst.Match(l.head) {
		id = idLast.FindSubmatch(l.tail)
	}
	if id == nil {
		return wire.Message{}, false, !noAnswer.Match(l.head) && len(l.head) > 0 && l.head[0] == '{'
	}
	return wire.NewError(wire.ID(id[1]), wire.InternalError,
		fmt.Sprintf("the server's answer has %d bytes, and the limit is %d", l.size, max), nil), true, false
}
