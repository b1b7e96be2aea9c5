package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Effective is a value that counts, and where it comes from.
type Effective struct {
	// Key is its path in a file: "log.level", "servers.files.idle_timeout".
	Key string `json:"key"`
	// Value is as a file has it: a string, a []string, or a map[string]string.
	// Secrets are Masked, and so are every value of a server's env and the arguments that
	// are named for secrets.
	Value any `json:"value"`
	// From is a place in a file, a flag, a variable, or FromDefault; for a server also
	// what was set for all of them.
	From string `json:"from"`
}

// FromDefault is where a value comes from that nobody has set.
const FromDefault = "default"

// Effective is every setting of the host, then those of each server, in the order of
// the tables. Of a server's own keys only those are there that have a value.
func (c *Config) Effective() []Effective {
	var all []Effective
	values := fields(reflect.ValueOf(c).Elem())
	for i := range Settings {
		s := &Settings[i]
		all = append(all, effective(s, s.Key, values[s.Key], c.set))
	}
	for i := range c.Servers {
		server := &c.Servers[i]
		both := newLayer()
		both.over(c.set)
		both.over(server.own)
		values := fields(reflect.ValueOf(server).Elem())
		for i := range ServerKeys {
			s := &ServerKeys[i]
			if !reflect.ValueOf(values[s.Key]).IsZero() || find(SharedKeys, s.Key) != nil {
				all = append(all, effective(s, "servers."+server.Name+"."+s.Key, values[s.Key], both))
			}
		}
	}
	return all
}

func effective(s *Setting, path string, v any, set *layer) Effective {
	e := Effective{Key: path, From: FromDefault}
	if place, ok := set.places[s.Key]; ok && place.Key != "" {
		e.From = place.Key
		if place.File != "" {
			e.From = fmt.Sprintf("%s:%d", place.File, place.Line)
		}
	}
	switch v := v.(type) {
	case []string:
		list := slices.Clone(v)
		if s.Key == "args" {
			list = maskArgs(v)
		}
		if set.secrets[s.Key] {
			list = []string{Masked}
		}
		e.Value = list
	case map[string]string: // what is set for a server is secret more often than not
		masked := map[string]string{}
		for name := range v {
			masked[name] = Masked
		}
		e.Value = masked
	default:
		text := s.Format(v)
		if set.secrets[s.Key] {
			text = Masked
		}
		e.Value = text
	}
	return e
}

// fields are the values of a struct by the keys that koanf gives them.
func fields(v reflect.Value) map[string]any {
	all := map[string]any{}
	for i := range v.NumField() {
		key, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("koanf"), ",")
		switch {
		case options == "squash":
			maps.Copy(all, fields(v.Field(i)))
		case key == "" || key == "-":
		case v.Field(i).Kind() == reflect.Struct:
			for inner, value := range fields(v.Field(i)) {
				all[key+"."+inner] = value
			}
		default:
			all[key] = v.Field(i).Interface()
		}
	}
	return all
}

// Show writes values as a file that sets them, each with a comment that says where it
// comes from.
func Show(values []Effective) (string, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, e := range values {
		at := root
		path := strings.Split(e.Key, ".")
		if rest, ok := strings.CutPrefix(e.Key, "servers."); ok { // a name may have dots
			dot := strings.LastIndex(rest, ".")
			path = []string{"servers", rest[:dot], rest[dot+1:]}
		}
		for _, name := range path[:len(path)-1] {
			at = child(at, name)
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: path[len(path)-1]}
		value := &yaml.Node{}
		if err := value.Encode(e.Value); err != nil {
			return "", err
		}
		if value.Kind == yaml.ScalarNode {
			value.LineComment = e.From
			if plain(value.Value) {
				value.Style, value.Tag = 0, ""
			}
		} else {
			value.Style = yaml.FlowStyle
			value.LineComment = e.From
		}
		at.Content = append(at.Content, key, value)
	}
	out, err := yaml.Marshal(root)
	return string(out), err
}

// plain tells whether a text reads the same without quotes: numbers, true and false.
func plain(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == "" || text == "true" || text == "false"
}

func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	made := &yaml.Node{Kind: yaml.MappingNode}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, made)
	return made
}

// CommandLine is how a server is started, for people and logs, with secrets masked: all
// arguments where one was filled in from a secret, else those that are named for one.
func (s *Server) CommandLine() string {
	words := append([]string{s.Command}, maskArgs(s.Args)...)
	if s.own != nil && s.own.secrets["args"] {
		words = []string{s.Command, Masked}
	}
	if s.own != nil && s.own.secrets["command"] {
		words[0] = Masked
	}
	return strings.Join(words, " ")
}
