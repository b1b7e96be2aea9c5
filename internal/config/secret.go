package config

import (
	"errors"
	"fmt"
	"strings"
)

// A text may name a secret instead of holding it: ${env:NAME} is the value of a
// variable of the host's environment, ${file:PATH} what a file holds, without the end
// of its last line. $${ stands for ${ itself. Anything else in ${} is left as it is.

// outside is what a configuration takes from where the host runs.
type outside struct {
	environ  map[string]string
	readFile func(path string) ([]byte, error)
}

// expand fills secrets in, and tells whether there were any.
func (o outside) expand(raw string) (text string, secret bool, err error) {
	var out strings.Builder
	for {
		at := strings.Index(raw, "${")
		if at < 0 {
			out.WriteString(raw)
			return out.String(), secret, nil
		}
		if at > 0 && raw[at-1] == '$' {
			out.WriteString(raw[:at-1] + "${")
			raw = raw[at+2:]
			continue
		}
		inner, rest, closed := strings.Cut(raw[at+2:], "}")
		kind, name, _ := strings.Cut(inner, ":")
		if kind != "env" && kind != "file" {
			out.WriteString(raw[:at+2])
			raw = raw[at+2:]
			continue
		}
		if !closed {
			return "", false, fmt.Errorf("${%s: begins and has no } at its end", kind)
		}
		value, err := o.secret(kind, name)
		if err != nil {
			return "", false, err
		}
		out.WriteString(raw[:at] + value)
		raw, secret = rest, true
	}
}

func (o outside) secret(kind, name string) (string, error) {
	if kind == "env" {
		value, set := o.environ[name]
		if !set {
			return "", fmt.Errorf("${env:%s}: the variable %s is not set here", name, name)
		}
		return value, nil
	}
	if err := folder(name); err != nil {
		return "", fmt.Errorf("${file:%s}: %w", name, err)
	}
	if o.readFile == nil {
		return "", errors.New("${file:...}: files can't be read here")
	}
	data, err := o.readFile(name)
	switch {
	case err != nil:
		return "", fmt.Errorf("${file:%s}: %w", name, err)
	case len(data) > maxSecret:
		return "", fmt.Errorf("${file:%s}: %d bytes are more than a secret has", name, len(data))
	case strings.ContainsRune(string(data), 0):
		return "", fmt.Errorf("${file:%s}: has a zero byte: it is no text", name)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

// maxSecret is more than keys and certificates take.
const maxSecret = 64 << 10

// errUnfitSecret says no more: what is wrong with a secret would tell what it is.
var errUnfitSecret = errors.New("what the secret holds is no value of this setting")

// Masked stands for a secret wherever a configuration is shown.
const Masked = "********"
