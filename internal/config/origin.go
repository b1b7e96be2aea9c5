package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// layer is the values that one source sets, by key, and where it does.
type layer struct {
	values  map[string]any
	places  map[string]Problem // without a text
	secrets map[string]bool    // values that name a secret, or a part of whose does
}

func newLayer() *layer {
	return &layer{values: map[string]any{}, places: map[string]Problem{}, secrets: map[string]bool{}}
}

func (l *layer) set(key string, v any, place Problem, secret bool) {
	l.values[key], l.places[key] = v, place
	if secret {
		l.secrets[key] = true
	} else {
		delete(l.secrets, key)
	}
}

// over lays another layer over this one.
func (l *layer) over(other *layer) {
	for key, v := range other.values {
		l.set(key, v, other.places[key], other.secrets[key])
	}
}

// Prefix begins the name of each variable that sets something, and ServerPrefix that
// of each that sets something for one server.
const (
	Prefix       = "KALPA_"
	ServerPrefix = Prefix + "SERVER_"
)

// notSettings are variables of this program that set nothing here.
var notSettings = []string{"KALPA_CONFIG", "KALPA_ADMIN_TOKEN", "KALPA_RUNTIME", "KALPA_STDIO_SUPERVISOR"}

// Variable is the name of the variable that sets it.
func (s *Setting) Variable() string { return Prefix + shout(s.Key) }

// shout is how a name stands in the name of a variable.
func shout(name string) string {
	return strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(name))
}

// variables reads the settings that the environment has. An empty variable sets
// nothing. One that is like a setting's and is none is noted: others may have put it
// there, so that it is no problem.
func (o outside) variables() (host *layer, servers []assignment, notes Notes, problems Problems) {
	host = newLayer()
	known := map[string]*Setting{}
	for i := range Settings {
		known[Settings[i].Variable()] = &Settings[i]
	}
	for _, name := range slices.Sorted(maps.Keys(o.environ)) {
		raw := o.environ[name]
		if raw == "" || !strings.HasPrefix(name, Prefix) || slices.Contains(notSettings, name) {
			continue
		}
		place := Problem{Key: name}
		if s := known[name]; s != nil {
			v, secret, err := o.value(s, raw)
			if err != nil {
				place.Text = err.Error()
				problems = append(problems, place)
				continue
			}
			host.set(s.Key, v, place, secret)
			continue
		}
		if rest, ok := strings.CutPrefix(name, ServerPrefix); ok {
			if server, key := serverVariable(rest); key != "" {
				servers = append(servers, assignment{server: server, shouted: true, key: key, raw: raw, place: place})
				continue
			}
			if near := nearServerVariable(rest); near != "" {
				place.Text = "sets nothing; did you mean " + ServerPrefix + near + "?"
				notes = append(notes, place)
				continue
			}
		}
		if near, ok := Nearest(name[len(Prefix):], suffixes(known)); ok {
			place.Text = "sets nothing; did you mean " + Prefix + near + "?"
			notes = append(notes, place)
		}
	}
	return host, servers, notes, problems
}

func suffixes(known map[string]*Setting) []string {
	var all []string
	for name := range known {
		all = append(all, name[len(Prefix):])
	}
	return all
}

// serverVariable splits FILES_IDLE_TIMEOUT into the server's name and the key.
func serverVariable(rest string) (server, key string) {
	for _, s := range ServerKeys {
		name, ok := strings.CutSuffix(rest, "_"+shout(s.Key))
		if ok && name != "" && len(s.Key) > len(key) {
			server, key = name, s.Key
		}
	}
	return server, key
}

// nearServerVariable is what a variable of a server without a key of one may mean: of the
// ends that are like a key, the one that is most like it. It is empty when none is, within
// a third of its letters: Kubernetes sets variables for each service, and one may be
// called kalpa-server.
func nearServerVariable(rest string) (near string) {
	var keys []string
	for _, s := range ServerKeys {
		keys = append(keys, shout(s.Key))
	}
	least := len(rest)
	for i := 1; i < len(rest)-1; i++ {
		if rest[i] != '_' {
			continue
		}
		end := rest[i+1:]
		key, ok := Nearest(end, keys)
		if d := distance(end, key); ok && d <= len(end)/3 && d < least {
			near, least = rest[:i+1]+key, d
		}
	}
	return near
}

// value reads a setting that a variable or a flag has as one text. Lists have commas
// between their items, or are written as in YAML: [a, b]; so are maps: {A: 1}.
func (o outside) value(s *Setting, raw string) (v any, secret bool, err error) {
	if s.Kind == Map || s.Kind == List && strings.HasPrefix(strings.TrimSpace(raw), "[") {
		f := &file{outside: o, layer: newLayer()}
		tree, _, p := parseDocument([]byte(raw))
		if p != nil || tree == nil {
			return nil, false, fmt.Errorf("%.100q is not written as in YAML, such as [a, b] or {A: 1}", raw)
		}
		v, ok := f.read(s, s.Key, resolve(tree))
		if !ok {
			return nil, false, fmt.Errorf("%s", f.problems[0].Text)
		}
		return v, f.wasSecret, nil
	}
	if s.Kind == List {
		var list []string
		for item := range strings.SplitSeq(raw, ",") {
			list = append(list, strings.TrimSpace(item))
		}
		return o.list(s, list)
	}
	text, secret, err := o.expand(raw)
	if err == nil {
		if v, err = s.parse(text); err != nil && secret {
			err = errUnfitSecret
		}
	}
	return v, secret, err
}

// list reads the items of a list.
func (o outside) list(s *Setting, items []string) (v any, secret bool, err error) {
	list := []string{}
	for _, raw := range items {
		text, has, err := o.expand(raw)
		if err == nil && s.Check != nil {
			if err = s.Check(text); err != nil && has {
				err = errUnfitSecret
			}
		}
		if err != nil {
			return nil, false, err
		}
		list, secret = append(list, text), secret || has
	}
	return list, secret, nil
}

// assignment sets a key of one server, from a flag or a variable.
type assignment struct {
	server  string // its name
	shouted bool   // as it stands in a variable's name
	key     string
	raw     string
	place   Problem
}

// serverFlags reads NAME.KEY=VALUE.
func serverFlags(given []string) (all []assignment, problems Problems) {
	var known []string
	for _, s := range ServerKeys {
		known = append(known, s.Key)
	}
	for _, raw := range given {
		path, value, ok := strings.Cut(raw, "=")
		dot := strings.LastIndex(path, ".") // a name may have dots, a key has none
		problem := Problem{Key: "--server"}
		switch {
		case !ok || dot < 1:
			problem.Text = fmt.Sprintf("%.100q is not NAME.KEY=VALUE, such as files.idle_timeout=1m", raw)
		case find(ServerKeys, path[dot+1:]) == nil:
			problem.Text = fmt.Sprintf("%s: unknown key; %s", path, didYouMean(path[dot+1:], known))
		default:
			all = append(all, assignment{server: path[:dot], key: path[dot+1:], raw: value, place: Problem{Key: "--server " + path}})
			continue
		}
		problems = append(problems, problem)
	}
	return all, problems
}

// assign sets keys of servers, and makes those that are not there yet.
func (f *file) assign(all []assignment) {
	for _, a := range all {
		i := slices.IndexFunc(f.servers, func(s Server) bool {
			return s.Name == a.server || a.shouted && shout(s.Name) == a.server
		})
		wrong := func(text string) {
			a.place.Text = text
			f.problems = append(f.problems, a.place)
		}
		if i < 0 {
			name := a.server
			if a.shouted {
				name = strings.ToLower(name)
			}
			if !serverName.MatchString(name) {
				wrong(fmt.Sprintf("%q can't be the name of a server%s", name, instead(name)))
				continue
			}
			f.servers = append(f.servers, Server{Name: name, path: "servers." + name, own: newLayer(), outer: true})
			i = len(f.servers) - 1
		}
		v, secret, err := f.outside.value(find(ServerKeys, a.key), a.raw)
		if err != nil {
			wrong(err.Error())
			continue
		}
		f.servers[i].own.set(a.key, v, a.place, secret)
	}
}
