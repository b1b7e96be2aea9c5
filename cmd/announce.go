package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/config"
)

// announce tells a person what runs where. Scripts may rely on the lines that
// begin with "kalpa is listening on ": one for each hosted server and each class whose
// objects are served, with its address as the last word, printed when clients can
// connect.
func (h *host) announce(w io.Writer) {
	type entry struct {
		Type string `json:"type"`
		URL  string `json:"url"`
	}
	entries := map[string]entry{}
	var out strings.Builder
	for _, s := range h.c.Servers {
		fmt.Fprintf(&out, "kalpa is listening on %s\n", h.url(s.Name))
		entries[s.Name] = entry{"http", h.url(s.Name)}
	}
	objects := h.scheme() + reachable(h.listener.Addr().(*net.TCPAddr)) + actor.ObjectsPath
	for _, class := range h.actors.Served() {
		fmt.Fprintf(&out, "kalpa is listening on %s%s/\n", objects, url.PathEscape(class))
	}
	for _, s := range h.c.Servers {
		fmt.Fprintf(&out, "  hosting   %s: %s\n", s.Name, runs(s))
	}
	data, err := filepath.Abs(h.c.Data)
	if err != nil {
		data = h.c.Data
	}
	for _, class := range registered() {
		fmt.Fprintf(&out, "  objects   of class %s\n", class.Name())
	}
	fmt.Fprintf(&out, "  data      %s (durability %s)\n", data, h.c.Durability)
	fmt.Fprintf(&out, "  pid       %d\n", os.Getpid())
	if h.admin != nil {
		where := config.UnixSocket + h.admin.Addr().String()
		if address, tcp := h.admin.Addr().(*net.TCPAddr); tcp {
			where = "http://" + reachable(address) + "/healthz"
		}
		fmt.Fprintf(&out, "  admin     %s\n", where)
		if console, tcp := strings.CutSuffix(where, "healthz"); tcp {
			fmt.Fprintf(&out, "  console   %s\n", console)
		}
	}
	paste, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err == nil && len(entries) > 0 {
		fmt.Fprintf(&out, "  client    %s\n", paste)
	}
	_, _ = io.WriteString(w, out.String()) // nobody may be reading; the host serves all the same
}

// runs is what a server is: its command, or its plugin.
func runs(s config.Server) string {
	if s.Plugin != "" {
		return "plugin " + s.Plugin
	}
	return s.CommandLine()
}

// url is where a server is reached from this machine.
func (h *host) url(name string) string {
	return h.scheme() + reachable(h.listener.Addr().(*net.TCPAddr)) + h.path(name)
}

func (h *host) scheme() string {
	if h.certificate != nil {
		return "https://"
	}
	return "http://"
}

func (h *host) path(name string) string {
	if h.c.Single {
		return "/mcp"
	}
	return "/mcp/" + name
}

// paths are all paths that a server is at. Some clients take the last word of a path for
// the protocol's and rewrite what is before it: theirs ends in /mcp.
func (h *host) paths(name string) []string {
	path, alias := h.path(name), "/"+name+"/mcp"
	if h.c.Single || alias == path {
		return []string{path}
	}
	return []string{path, alias}
}
