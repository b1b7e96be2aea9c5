package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// puppets are runtimes that do by themselves no more than a handshake needs; what
// they say else is the test's.
type puppets struct {
	*world
	pmu   sync.Mutex
	all   []*puppet
	tools string // what tools/list is answered with: the tools; "error": it is refused, "silence": nothing comes
	slow  time.Duration
	deaf  bool // initialize is not answered
	asks  bool // the session asks for tools
	most  int  // runtimes at once; guarded by mu
}

// puppet is one of them.
type puppet struct {
	mcp.Session
	of  *puppets
	got []wire.Message // guarded by pmu
}

func newPuppets(t *testing.T, tools string, tune func(*session.Server)) *puppets {
	return newPuppetsOn(t, &countingStore{Store: storage.NewMemory()}, tools, tune)
}

// newPuppetsOn is newPuppets on a store, which it closes.
func newPuppetsOn(t *testing.T, store storage.Store, tools string, tune func(*session.Server)) *puppets {
	p := &puppets{tools: tools}
	p.world = &world{store: store, serverTuned: func(s *session.Server) {
		s.Plugin = mcp.PluginFunc(p.make)
		if tune != nil {
			tune(s)
		}
	}}
	p.begin(t)
	return p
}

// say changes what a list of tools is answered with.
func (p *puppets) say(tools string) {
	p.pmu.Lock()
	defer p.pmu.Unlock()
	p.tools = tools
}

// count is how many runtimes there were.
func (p *puppets) count() int {
	p.pmu.Lock()
	defer p.pmu.Unlock()
	return len(p.all)
}

func (p *puppets) make(_ context.Context, s mcp.Session) (mcp.Runtime, error) {
	p.mu.Lock()
	p.open++
	p.most = max(p.most, p.open)
	p.mu.Unlock()
	p.pmu.Lock()
	defer p.pmu.Unlock()
	r := &puppet{Session: s, of: p}
	p.all = append(p.all, r)
	return r, nil
}

func (r *puppet) Deliver(ctx context.Context, m wire.Message) error {
	defer func() {
		r.of.pmu.Lock()
		r.got = append(r.got, m) // with what it has answered by itself
		r.of.pmu.Unlock()
	}()
	r.of.pmu.Lock()
	tools, deaf := r.of.tools, r.of.deaf
	r.of.pmu.Unlock()
	switch {
	case deaf:
	case m.Is("initialize"):
		return r.Send(ctx, wire.NewResult(m.ID(), []byte(`{"protocolVersion":"`+r.of.version+`","capabilities":{"tools":{}},"serverInfo":{"name":"puppet","version":"1"}}`)), "")
	case m.Is("tools/list") && tools == "error":
		return r.Send(ctx, wire.NewError(m.ID(), wire.InternalError, "no", nil), "")
	case m.Is("tools/list") && tools != "silence":
		return r.Send(ctx, wire.NewResult(m.ID(), pageOf(tools, m.ParamString("cursor"))), "")
	}
	return nil
}

// pageOf cuts a list of tools into pages at "|".
func pageOf(tools, cursor string) []byte {
	pages := strings.Split(tools, "|")
	n := 0
	_, _ = fmt.Sscanf(cursor, "page %d", &n)
	next := ""
	if n+1 < len(pages) {
		next = fmt.Sprintf(`,"nextCursor":"page %d"`, n+1)
	}
	return fmt.Appendf(nil, `{"tools":[%s]%s}`, pages[n], next)
}

func (r *puppet) Close(context.Context) error {
	r.of.pmu.Lock()
	slow := r.of.slow
	r.of.pmu.Unlock()
	time.Sleep(slow)
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.open--
	return nil
}

// nth waits for the nth runtime, from 1.
func (p *puppets) nth(n int) (r *puppet) {
	p.t.Helper()
	p.within(5*time.Second, fmt.Sprintf("runtime %d", n), func() bool {
		p.pmu.Lock()
		defer p.pmu.Unlock()
		if len(p.all) < n {
			return false
		}
		r = p.all[n-1]
		return true
	})
	return r
}

// heard is what a runtime was told that contains a part.
func (r *puppet) heard(part string) (found []wire.Message) {
	r.of.pmu.Lock()
	defer r.of.pmu.Unlock()
	for _, m := range r.got {
		if strings.Contains(m.String(), part) {
			found = append(found, m)
		}
	}
	return found
}

// hears waits until it is told something.
func (r *puppet) hears(part string) wire.Message {
	r.of.t.Helper()
	r.of.within(5*time.Second, "the runtime hears "+part, func() bool { return len(r.heard(part)) > 0 })
	return r.heard(part)[0]
}

// answer answers a request.
func (r *puppet) answer(m wire.Message, result string) {
	_ = r.Send(context.Background(), wire.NewResult(m.ID(), []byte(result)), "")
}
