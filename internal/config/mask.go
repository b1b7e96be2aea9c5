package config

import (
	"net/url"
	"regexp"
	"strings"
)

// telling are the names of what is secret more often than not.
var telling = regexp.MustCompile(`(?i)key|secret|token|passw|passphrase|pwd|credential|authorization|bearer`)

// maskArgs are arguments as others may see them: the values of those whose name tells that
// they are secret are Masked, --token VALUE, --token=VALUE, TOKEN=VALUE and "Token: VALUE" alike,
// and so are passwords in addresses.
func maskArgs(args []string) []string {
	masked := make([]string, 0, len(args))
	next := false // the flag before is named for a secret, and has no value yet
	for _, arg := range args {
		flag := strings.HasPrefix(arg, "-")
		switch {
		case next && !flag:
			next = false
			masked = append(masked, Masked)
			continue
		case flag && !strings.ContainsAny(arg, "= :"):
			next = telling.MatchString(arg)
		default:
			next = false
		}
		masked = append(masked, maskArg(arg))
	}
	return masked
}

// maskArg is one argument, less what it says to be secret.
func maskArg(arg string) string {
	if at := strings.IndexAny(arg, "=:"); at >= 0 && telling.MatchString(arg[:at]) && arg[at+1:] != "" && !strings.HasPrefix(arg[at:], "://") {
		space := ""
		if strings.HasPrefix(arg[at+1:], " ") {
			space = " "
		}
		return arg[:at+1] + space + Masked
	}
	if at := strings.Index(strings.ToLower(arg), "bearer "); at >= 0 {
		return arg[:at+len("bearer ")] + Masked
	}
	before, address := "", arg
	if name, value, ok := strings.Cut(arg, "="); ok && !strings.Contains(name, "://") {
		before, address = name+"=", value
	}
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return before + maskURL(address, u)
	}
	return arg
}

// maskURL is an address without its password, and without parameters that are named for
// a secret.
func maskURL(address string, u *url.URL) string {
	if password, has := u.User.Password(); has && password != "" {
		scheme, rest, _ := strings.Cut(address, "://")
		authority := rest
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			authority = rest[:end]
		}
		name, _, _ := strings.Cut(rest, ":")
		address = scheme + "://" + name + ":" + Masked + rest[strings.LastIndex(authority, "@"):]
	}
	path, query, has := strings.Cut(address, "?")
	if !has {
		return address
	}
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		if name, _, ok := strings.Cut(p, "="); ok && telling.MatchString(name) {
			parameters[i] = name + "=" + Masked
		}
	}
	return path + "?" + strings.Join(parameters, "&")
}
