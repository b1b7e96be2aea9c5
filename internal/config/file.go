package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// serverName is what fits in an address unescaped.
var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// file is a configuration file as it is read: the values by their keys, where they
// stand, and what is wrong.
type file struct {
	outside
	*layer
	name      string
	plugins   []string // the known ones
	servers   []Server
	problems  Problems
	notes     Notes
	wasSecret bool // a part of the value that was read last names a secret
}

// read reads a configuration file into f.
func (f *file) readFile(data []byte) {
	name := f.name
	tree, isJSON, p := parseDocument(data)
	switch {
	case p != nil:
		p.File = name
		f.problems = append(f.problems, *p)
	case tree == nil || tree.Tag == "!!null":
		f.problem(0, "", "is empty: name a server under servers or mcpServers")
	case tree.Kind != yaml.MappingNode:
		f.problem(tree.Line, "", "is %s where keys and values are expected", kindOf(tree))
	default:
		f.top(tree, isJSON)
	}
}

func (f *file) problem(line int, key, text string, a ...any) {
	f.problems = append(f.problems, Problem{f.name, line, key, fmt.Sprintf(text, a...)})
}

func (f *file) note(line int, key, text string, a ...any) {
	f.notes = append(f.notes, Problem{f.name, line, key, fmt.Sprintf(text, a...)})
}

func (f *file) top(tree *yaml.Node, isJSON bool) {
	known := []string{"servers", "mcpServers"}
	sections := map[string][]*Setting{}
	for i := range Settings {
		name, _, nested := strings.Cut(Settings[i].Key, ".")
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
		if nested {
			sections[name] = append(sections[name], &Settings[i])
		}
	}
	clients := f.clientsOwn(tree, known, isJSON)
	var passedOver []string
	f.each(tree, "", func(key string, keyNode, value *yaml.Node) {
		switch {
		case key == "servers":
			f.serverMap(key, value, f.server)
		case key == "mcpServers":
			f.serverMap(key, value, f.clientServer)
		case sections[key] != nil:
			f.section(key, value, sections[key])
		case slices.Contains(known, key):
			f.value(find(Settings, key), key, value)
		default:
			_, near := Nearest(key, known)
			if clients && !near {
				passedOver = append(passedOver, key)
				return
			}
			f.problem(keyNode.Line, key, "unknown key; %s", didYouMean(key, known))
		}
	})
	if len(passedOver) > 0 {
		f.note(0, "", "taken for an MCP client's own file: only mcpServers is read, not %s", strings.Join(passedOver, ", "))
	}
}

// clientsOwn tells whether a file is an MCP client's: JSON with mcpServers and no
// key of this program's besides. Such a file may have other keys.
func (f *file) clientsOwn(tree *yaml.Node, known []string, isJSON bool) bool {
	has := false
	for i := 0; i < len(tree.Content); i += 2 {
		key := tree.Content[i].Value
		has = has || key == "mcpServers"
		if key != "mcpServers" && slices.Contains(known, key) {
			return false
		}
	}
	return has && isJSON
}

func (f *file) section(name string, n *yaml.Node, settings []*Setting) {
	var known []string
	for _, s := range settings {
		known = append(known, strings.TrimPrefix(s.Key, name+"."))
	}
	f.each(n, name, func(key string, keyNode, value *yaml.Node) {
		path := name + "." + key
		if i := slices.Index(known, key); i >= 0 {
			f.value(settings[i], path, value)
			return
		}
		f.problem(keyNode.Line, path, "unknown key; %s", didYouMean(key, known))
	})
}

// value reads a setting into f.values.
func (f *file) value(s *Setting, path string, n *yaml.Node) {
	f.wasSecret = false
	if v, ok := f.read(s, path, n); ok {
		f.set(path, v, Problem{File: f.name, Line: n.Line, Key: path}, f.wasSecret)
	}
}

// read reads a value of a setting's kind. What is wrong with it has been noted when
// ok is false.
func (f *file) read(s *Setting, path string, n *yaml.Node) (v any, ok bool) {
	switch s.Kind {
	case List:
		if n.Kind != yaml.SequenceNode {
			f.problem(n.Line, path, "is %s where a list is expected", kindOf(n))
			return nil, false
		}
		list, ok := []string{}, true
		for i, item := range n.Content {
			text, itemOK := f.text(s, fmt.Sprintf("%s[%d]", path, i), resolve(item))
			list, ok = append(list, text), ok && itemOK
		}
		return list, ok
	case Map:
		values, ok := map[string]string{}, true
		found := f.each(n, path, func(key string, keyNode, value *yaml.Node) {
			if err := s.Check(key); err != nil {
				f.problem(keyNode.Line, path, "%v", err)
				ok = false
				return
			}
			text, itemOK := f.text(nil, path+"."+key, value)
			values[key], ok = text, ok && itemOK
		})
		return values, ok && found
	default:
		text, ok := f.text(nil, path, n)
		if !ok {
			return nil, false
		}
		v, err := s.parse(text)
		if err != nil && f.wasSecret {
			err = errUnfitSecret
		}
		if err != nil {
			f.problem(n.Line, path, "%v", err)
			return nil, false
		}
		return v, true
	}
}

// text reads a scalar as it is written: 8080 is "8080".
func (f *file) text(s *Setting, path string, n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		f.problem(n.Line, path, "is %s where one value is expected", kindOf(n))
		return "", false
	}
	if n.ShortTag() == "!!null" {
		f.problem(n.Line, path, `has no value; write "" for an empty one`)
		return "", false
	}
	value, secret, err := f.expand(n.Value)
	if err == nil && s != nil && s.Check != nil {
		if err = s.Check(value); err != nil && secret {
			err = errUnfitSecret
		}
	}
	if err != nil {
		f.problem(n.Line, path, "%v", err)
		return "", false
	}
	f.wasSecret = f.wasSecret || secret
	return value, true
}

// serverMap reads a map of servers by name.
func (f *file) serverMap(section string, n *yaml.Node, read func(s *Server, path string, n *yaml.Node) (wanted bool)) {
	f.each(n, section, func(name string, keyNode, value *yaml.Node) {
		path := section + "." + name
		if !serverName.MatchString(name) {
			f.problem(keyNode.Line, section, "%q can't be part of an address: a name has letters, digits, '.', '_' and '-', begins with a letter or digit, and has at most 64 of them%s", name, instead(name))
			return
		}
		if i := slices.IndexFunc(f.servers, func(s Server) bool { return s.Name == name }); i >= 0 {
			f.problem(keyNode.Line, path, "the name is taken by the server on line %d", f.servers[i].Line)
			return
		}
		s := Server{Name: name, Line: keyNode.Line, path: path, own: newLayer()}
		if wanted := read(&s, path, value); wanted {
			f.servers = append(f.servers, s)
		}
	})
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

func instead(name string) string {
	fit := strings.Trim(unfit.ReplaceAllString(name, "-"), "-._")
	if !serverName.MatchString(fit) {
		return ""
	}
	return fmt.Sprintf(", such as %q", fit)
}

// elsewhere is what other programs call these keys.
var elsewhere = map[string]string{
	"cwd": "dir", "cmd": "command", "environment": "env", "arguments": "args", "timeout": "running_ceiling, idle_timeout or build_timeout",
}

// server reads one entry of servers. An entry with problems still takes its name.
func (f *file) server(s *Server, path string, n *yaml.Node) bool {
	var known []string
	for _, k := range ServerKeys {
		known = append(known, k.Key)
	}
	s.found = f.each(n, path, func(key string, keyNode, value *yaml.Node) {
		keyPath := path + "." + key
		setting := find(ServerKeys, key)
		if setting == nil {
			near, _ := Nearest(key, known)
			other := elsewhere[key]
			s.meant = s.meant || near == "command" || near == "plugin" || other == "command" || key == "url"
			switch {
			case other != "":
				f.problem(keyNode.Line, keyPath, "unknown key; here it is %s", other)
			case key == "url":
				f.problem(keyNode.Line, keyPath, "unknown key; the servers here are those that this host runs: give a command")
			default:
				f.problem(keyNode.Line, keyPath, "unknown key; %s", didYouMean(key, known))
			}
			return
		}
		f.serverValue(s, setting, keyNode.Line, keyPath, value)
	})
	return true
}

// serverValue reads a key of a server. One that is wrong is there all the same.
func (f *file) serverValue(s *Server, setting *Setting, line int, path string, n *yaml.Node) {
	f.wasSecret = false
	place := Problem{File: f.name, Line: line, Key: path}
	s.own.places[setting.Key] = place
	if v, ok := f.read(setting, path, n); ok {
		s.own.set(setting.Key, v, place, f.wasSecret)
	}
}

// whole checks what the keys of a server make together.
func (f *file) whole(s *Server) {
	problem := func(place Problem, key, text string, a ...any) {
		place.Key, place.Text = key, fmt.Sprintf(text, a...)
		f.problems = append(f.problems, place)
	}
	command, hasCommand := s.own.places["command"]
	plugin, hasPlugin := s.own.places["plugin"]
	switch {
	case hasCommand && hasPlugin:
		last := plugin
		if command.Line > plugin.Line {
			last = command
		}
		problem(last, s.path, "has both command (%s) and plugin (%s): one of them is the server", at(command), at(plugin))
	case !hasCommand && !hasPlugin && !s.meant:
		place := Problem{File: f.name, Line: s.Line}
		if s.outer {
			place = Problem{}
		}
		problem(place, s.path, "has neither command nor plugin: one of them is the server")
	case hasPlugin:
		for _, key := range []string{"args", "env", "inherit", "dir", "max_memory", "max_cpu", "max_processes", "max_files", "crash_limit"} {
			if place, set := s.own.places[key]; set {
				problem(place, s.path+"."+key, "goes with command, not with plugin")
			}
		}
	}
	if name, _ := s.own.values["plugin"].(string); name != "" && !slices.Contains(f.plugins, name) {
		problem(plugin, s.path+".plugin", "this program has no plugin %q; %s", name, didYouMean(name, f.plugins))
	}
}

// at says where a value was set, in short.
func at(place Problem) string {
	if place.Line > 0 {
		return fmt.Sprintf("line %d", place.Line)
	}
	return place.Key
}

// each calls visit for each key of a mapping, aliases resolved; a key that comes
// twice is a problem. It returns false, with the problem noted, when n is no mapping.
func (f *file) each(n *yaml.Node, path string, visit func(key string, keyNode, value *yaml.Node)) bool {
	if n = resolve(n); n.Kind != yaml.MappingNode {
		f.problem(n.Line, path, "is %s where keys and values are expected", kindOf(n))
		return false
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		keyNode, value := n.Content[i], resolve(n.Content[i+1])
		key := keyNode.Value
		keyPath := strings.TrimPrefix(path+"."+key, ".")
		switch line, twice := seen[key]; {
		case keyNode.Kind != yaml.ScalarNode:
			f.problem(keyNode.Line, path, "a key is %s where a word is expected", kindOf(keyNode))
		case keyNode.Tag == "!!merge":
			f.problem(keyNode.Line, keyPath, "merging maps with << is not supported: write the keys out, or use an alias for a whole value")
		case twice:
			f.problem(keyNode.Line, keyPath, "is there twice, the first time on line %d", line)
		default:
			seen[key] = keyNode.Line
			visit(key, keyNode, value)
		}
	}
	return true
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func find(settings []Setting, key string) *Setting {
	for i := range settings {
		if settings[i].Key == key {
			return &settings[i]
		}
	}
	return nil
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return "nothing"
		}
		return fmt.Sprintf("%.40q", n.Value)
	default:
		return "something else"
	}
}
