package front

import (
	"fmt"
	"net/http"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

const (
	versionBatch = "2025-03-26" // the only revision with batches
	versionRetry = "2025-11-25" // the first whose clients know a stream that ends early

	// unsupportedVersion is the modern era's code for a revision that is not served.
	unsupportedVersion wire.Code = -32022

	pathModernVersion = `_meta.io\.modelcontextprotocol/protocolVersion`
)

// checkVersion judges the version header. Revisions with sessions are the legacy
// era: session.Versions. A client of the modern era probes with its own revision,
// and falls back to initialize only when it is answered in the modern way; so is
// everyone who names a revision that is unknown here.
func checkVersion(version string, id wire.ID) *Refusal {
	if version == "" || session.Known(version) {
		return nil
	}
	return unsupported(id, version)
}

// checkEra looks for messages of the modern era that came without its header.
func checkEra(ms []wire.Message) *Refusal {
	for _, m := range ms {
		if m.Kind() == wire.Response {
			continue
		}
		v := m.ParamString(pathModernVersion)
		if v != "" && !session.Known(v) || m.Is("server/discover") {
			return unsupported(m.ID(), v)
		}
	}
	return nil
}

func unsupported(id wire.ID, requested string) *Refusal {
	text := "The protocol version that this method belongs to is not served here. Use one of the supported versions, beginning with initialize."
	if requested != "" {
		text = fmt.Sprintf("The protocol version %.100q is not served here. Use one of the supported versions, beginning with initialize.", requested)
	}
	return &Refusal{Status: http.StatusBadRequest, Body: wire.NewError(id, unsupportedVersion, text, struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{session.Versions, requested})}
}
