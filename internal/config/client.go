package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// clientKeys is how the configuration files of MCP clients describe a server that
// the client would start: the key there, and the key of ServerKeys that it means.
var clientKeys = map[string]string{"command": "command", "args": "args", "env": "env", "cwd": "dir"}

// clientOnly is what those files also say about a server and what concerns nobody
// but the client.
var clientOnly = []string{
	"alwaysAllow", "autoApprove", "autoAllow", "description", "disabledTools", "disabled_tools", "enabledTools",
	"enabled_tools", "excludeTools", "icon", "includeTools", "timeout", "trust",
}

// clientServer reads one entry of mcpServers. It is not wanted when the client has
// it switched off, or reaches it at an address of its own.
func (f *file) clientServer(s *Server, path string, n *yaml.Node) (wanted bool) {
	known := []string{"type", "disabled", "enabled", "url"}
	for key := range clientKeys {
		known = append(known, key)
	}
	slices.Sort(known)
	at := map[string]int{}
	var transport string
	off, meant := false, false
	found := f.each(n, path, func(key string, keyNode, value *yaml.Node) {
		keyPath := path + "." + key
		at[key] = keyNode.Line
		switch {
		case clientKeys[key] != "":
			f.serverValue(s, find(ServerKeys, clientKeys[key]), keyNode.Line, keyPath, value)
			f.unexpanded(keyPath, value)
		case key == "type" || key == "transport" || key == "transportType":
			transport, _ = f.text(nil, keyPath, value)
		case key == "disabled" || key == "enabled":
			if v, ok := f.read(&Setting{Kind: Bool}, keyPath, value); ok {
				off = off || v == (key == "disabled")
			}
		case key == "url" || key == "serverUrl" || key == "httpUrl" || key == "headers":
			if at["url"] == 0 {
				at["url"] = keyNode.Line
			}
		case slices.Contains(clientOnly, key):
			f.note(keyNode.Line, keyPath, "concerns the client alone: passed over")
		default:
			near, _ := Nearest(key, known)
			meant = meant || near == "command" || near == "url"
			f.problem(keyNode.Line, keyPath, "unknown key; %s", didYouMean(key, known))
		}
	})
	remote := at["url"] > 0 || transport != "" && transport != "stdio"
	switch {
	case !found:
		return true
	case off:
		f.note(s.Line, path, "switched off in the file: not hosted")
		return false
	case remote && at["command"] == 0:
		f.note(s.Line, path, "runs elsewhere already: not hosted; clients go on connecting to it themselves")
		return false
	case remote:
		f.problem(s.Line, path, "has a command and is reached over %s: one of them is the server", cmp.Or(transport, "a url"))
	case at["command"] == 0 && !meant:
		f.problem(s.Line, path, "has no command")
	}
	return true
}

var filledIn = regexp.MustCompile(`\$\{(env|file):`)

// unexpanded notes values that some clients fill in before they start a server.
func (f *file) unexpanded(path string, n *yaml.Node) {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode && filledIn.ReplaceAllString(n.Value, "") != n.Value {
		return
	}
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "${") {
		f.note(n.Line, path, "${...} is passed on as it is written: only ${env:NAME} and ${file:PATH} are filled in here")
	}
	for _, child := range n.Content {
		if child.Kind == yaml.ScalarNode {
			f.unexpanded(path, child)
		}
	}
}
