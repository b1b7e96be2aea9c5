package cmd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/mcp/session"
)

// fixed are the keys whose value only a restart changes.
var fixed = []string{
	"listen", "data", "durability", "insecure", "isolates", "heap", "reclaim", "admin", "admin_token_file", "trace_file", "log.format",
}

// reload takes over what can change of a configuration. What can't is said; on an error
// nothing has changed. Sessions, streams and requests that are under way go on.
func (h *host) reload(next *config.Config) error {
	h.changing.Lock()
	defer h.changing.Unlock()
	now := h.config()
	var changed []string
	before, after := values(now), values(next)
	for _, key := range fixed {
		if before[key] != after[key] {
			changed = append(changed, key)
		}
	}
	if (now.TLS.Cert == "") != (next.TLS.Cert == "") {
		changed = append(changed, "tls.cert")
	}
	if len(changed) > 0 {
		h.log.Warn("settings have changed that only a restart takes over", "keys", strings.Join(changed, ", "))
	}
	if now.Single != next.Single {
		return errors.New("one server at /mcp can't become several at /mcp/NAME, nor the other way round: that takes a restart")
	}
	if next.Single && len(now.Servers) > 0 && len(next.Servers) > 0 && now.Servers[0].Name != next.Servers[0].Name {
		return fmt.Errorf("the server at /mcp is %s, and can't become %s: that takes a restart", now.Servers[0].Name, next.Servers[0].Name)
	}

	// All that can fail comes first.
	a, err := authenticator(next.Auth)
	if err != nil {
		return err
	}
	if a == nil && !config.Loopback(now.Listen) && !now.Insecure {
		return errors.New("this host is reached from other machines, and would ask for no credentials: that takes a restart with --insecure")
	}
	var pair *tls.Certificate
	var seen [2]time.Time
	if h.certificate != nil && next.TLS.Cert != "" {
		if pair, seen, err = loadCertificate(next.TLS); err != nil {
			return err
		}
	}
	for _, s := range next.Servers {
		if err := h.limitsOf(next, s).Validate(); err != nil {
			return err
		}
	}
	servers := h.servers(next)
	if err := h.sessions.Configure(servers); err != nil {
		return err
	}

	for _, s := range next.Servers {
		if err := h.mount(next, s); err != nil {
			return err
		}
	}
	for _, s := range now.Servers { // its sessions are told that it is gone, and not that they are
		if !slices.ContainsFunc(next.Servers, func(n config.Server) bool { return n.Name == s.Name }) {
			h.log.Info("a server is hosted no more: its sessions are kept, and refused", "server", s.Name)
		}
	}
	h.door.configure(next, a)
	h.connections.Set(h.mostConnections(next.MaxConnections))
	if pair != nil {
		h.certificate.use(next.TLS, pair, seen)
	}
	h.live.Store(next)
	h.log.Info("configuration reloaded", "servers", len(servers))
	h.level.Set(levelOf(next.Log.Level))
	return nil
}

// values are a configuration's, by key.
func values(c *config.Config) map[string]any {
	all := map[string]any{}
	for _, e := range c.Effective() {
		if text, ok := e.Value.(string); ok {
			all[e.Key] = text
		}
	}
	return all
}

// same tells whether a server is started as before.
func same(a, b config.Server) bool {
	return a.Command == b.Command && a.Dir == b.Dir && a.Plugin == b.Plugin && slices.Equal(a.Args, b.Args) &&
		slices.Equal(a.Inherit, b.Inherit) && reflect.DeepEqual(a.Env, b.Env) && a.Limits == b.Limits
}

// serverOf is a server as sessions have it, less its plugin.
func serverOf(s config.Server) session.Server {
	early := session.Early(s.Early)
	if early == "" && s.Plugin != "" {
		early = session.EarlyReadOnly // what it says of its tools is this program's own word
	}
	return session.Server{
		Name: s.Name, Early: early, Reexecute: session.Reexecute(s.Reexecute), Policy: session.Policy(s.Policy),
		MaxSessions: s.MaxSessions, MaxPerCaller: s.MaxSessionsPerCaller, MaxRequests: s.MaxRequests,
	}
}
