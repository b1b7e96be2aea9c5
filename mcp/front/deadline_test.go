package front

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// A front never answers in the place of a session that still may: whatever ceiling
// a server's sessions have, its front waits for DeadlineMargin longer (I1).
func TestAFrontWaitsLongerThanItsSessions(t *testing.T) {
	store := storage.NewMemory()
	defer store.Close()
	host, err := actor.NewHost(actor.Options{Store: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	policies := map[string]session.Policy{
		"default":            {},
		"longer":             {RunningCeiling: 3 * time.Hour},
		"shorter":            {RunningCeiling: 2 * time.Second},
		"short-lived":        {Lifetime: 10 * time.Minute},
		"as-long-as-it-gets": {RunningCeiling: session.MaxDuration, Lifetime: -1},
	}
	var servers []session.Server
	for name, p := range policies {
		servers = append(servers, session.Server{Name: name, Plugin: mcp.PluginFunc(nil), Policy: p})
	}
	sessions, err := session.NewService(host, session.Options{Servers: servers})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range policies {
		f, err := New(Options{Sessions: sessions, Server: name})
		if err != nil {
			t.Fatal(err)
		}
		if least := p.WithDefaults().RunningCeiling + DeadlineMargin; f.deadline() < least {
			t.Errorf("%s: the front answers after %v, and must not before %v", name, f.deadline(), least)
		}
	}
	if _, err := New(Options{Sessions: sessions, Server: "unknown"}); err == nil || !strings.Contains(err.Error(), `"unknown"`) {
		t.Errorf("a front of a server that is not hosted: %v", err)
	}
}

// The margin has room for what may come before a session has a request, and for
// passing it on once.
func TestTheMarginCoversTheWay(t *testing.T) {
	o := Options{}.withDefaults()
	if way := o.OpeningLimit + o.AttachWait + o.AttachLimit; DeadlineMargin < way {
		t.Errorf("the margin is %v, the way to a session and to its next incarnation may take %v", DeadlineMargin, way)
	}
}
