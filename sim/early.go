package sim

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// Of calls that begin early, see [session.Early].

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
		rest, owed := strings.CutPrefix(e.Key, owedRows+"p")
		if !owed {
			continue
		}
		stream, _, _ := strings.Cut(rest, "/")
		for _, r := range h.streams[stream] {
			if !slices.Contains(r.stored, b.Epoch) {
				r.stored = append(r.stored, b.Epoch)
			}
		}
	}
}

// runs is how often a request has run, as far as it counts: a call that changes nothing may
// begin while it is being stored, and where it never was, it has not begun.
func (h *history) runs(r *request) (n int) {
	early := h.w.plan.Early && slices.Contains(repeatable, r.tool)
	for _, epoch := range r.begun {
		if !early || slices.Contains(r.stored, epoch) {
			n++
		}
	}
	return n
}
