package sim

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// sent is told of each POST that a front passes on: what requests its stream is to answer.
func (h *history) sent(p *session.Post) {
	for _, m := range p.Messages {
		if r := h.byN[gjson.GetBytes(m.Params(), "arguments.n").String()]; r != nil {
			h.streams[p.Stream] = append(h.streams[p.Stream], r)
		}
	}
}

// admitted is told of each batch that is about to land on the disk.
func (h *history) admitted(b *storage.Write) {
	for _, e := range b.Puts {
		if rest, owed := strings.CutPrefix(e.Key, owedRows+"p"); owed {
			stream, _, _ := strings.Cut(rest, "/")
			for _, r := range h.streams[stream] {
				r.stored = true
			}
		}
	}
}
