package cmd

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/auth"
	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/internal/limit"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/front"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// door decides who comes in to servers and objects, and how often. All of it can be
// changed while the host serves.
type door struct {
	log   *slog.Logger
	auth  atomic.Pointer[auth.Authenticator] // nil: nobody is asked
	calls *limit.Rates                       // of each caller
	each  *limit.Rates                       // of each session
	opens *limit.Rates                       // sessions opened by each caller
}

func newDoor(log *slog.Logger) *door {
	return &door{log: log, calls: limit.NewRates(0, time.Second), each: limit.NewRates(0, time.Second), opens: limit.NewRates(0, time.Minute)}
}

// authenticator is what a configuration asks of callers; nil: nothing.
func authenticator(c config.Auth) (*auth.Authenticator, error) {
	if !c.On() {
		return nil, nil
	}
	o := auth.Options{
		Issuer: c.Issuer, KeysURL: c.JWKS, Audience: c.Audience, Algorithms: c.Algorithms, Scopes: c.Scopes, Leeway: c.Leeway, Resource: c.Resource,
	}
	if c.TokensFile != "" {
		data, err := os.ReadFile(c.TokensFile)
		if err != nil {
			return nil, &usageError{err: fmt.Errorf("--auth-tokens-file: %w", err)}
		}
		if o.Tokens, err = auth.ParseTokens(data); err != nil {
			return nil, &usageError{err: fmt.Errorf("%s: %w", c.TokensFile, err), hint: "kalpa token NAME makes a token, and the line that stands for it here"}
		}
	}
	a, err := auth.New(o)
	if err != nil {
		return nil, &usageError{err: err, hint: "kalpa token NAME makes a token, and the line that stands for it in the tokens file"}
	}
	return a, nil
}

// configure changes who comes in, and how often.
func (d *door) configure(c *config.Config, a *auth.Authenticator) {
	d.auth.Store(a)
	d.calls.Set(c.MaxRate, time.Second)
	d.each.Set(c.MaxSessionRate, time.Second)
	d.opens.Set(c.MaxOpenRate, time.Minute)
}

// denial is why a request is not let in.
type denial struct {
	status    int
	challenge string
	wait      time.Duration // 0: waiting does not help
	text      string
}

// admit says who calls, or why the call is not let in. path is what is asked for.
func (d *door) admit(r *http.Request, path string) (subject string, no *denial) {
	now := time.Now()
	from, here := origin(r)
	key := from
	a := d.auth.Load()
	if a != nil {
		s, refused := a.Caller(r, path)
		if refused != nil {
			// Who tries tokens out is slowed down like anybody.
			if ok, wait := d.calls.Allow("?"+from, now); !ok {
				return "", tooOften(wait)
			}
			d.log.Debug("caller refused", "from", from, "path", path, "status", refused.Status, "why", refused.Text)
			no = &denial{status: refused.Status, challenge: refused.Challenge, text: refused.Text}
			if refused.Status == http.StatusServiceUnavailable {
				no.wait = auth.KeysPause
			}
			return "", no
		}
		subject, key = s, "="+s
	} else if here {
		return "", nil // who may do anything on this machine already
	}
	if ok, wait := d.calls.Allow(key, now); !ok {
		return "", tooOften(wait)
	}
	session := r.Header.Get("Mcp-Session-Id")
	switch {
	case session != "":
		if len(session) > 128 {
			session = session[:128]
		}
		if ok, wait := d.each.Allow(key+"\x00"+session, now); !ok {
			return "", tooOften(wait)
		}
	case r.Method == http.MethodPost && a != nil || r.Method == http.MethodPost && !here:
		if ok, wait := d.opens.Allow(key, now); !ok {
			return "", tooOften(wait)
		}
	}
	return subject, nil
}

func tooOften(wait time.Duration) *denial {
	return &denial{status: http.StatusTooManyRequests, wait: max(wait, time.Millisecond), text: "That is too many requests. Send this one again when the time in Retry-After has passed."}
}

// header sets what a denial says in headers.
func (n *denial) header(h http.Header) {
	if n.challenge != "" {
		h.Set("WWW-Authenticate", n.challenge)
	}
	if n.wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(n.wait.Seconds()))))
	}
}

// principal is front.Options.Principal for the server at a path.
func (d *door) principal(path string) func(*http.Request) (mcp.Principal, *front.Refusal) {
	return func(r *http.Request) (mcp.Principal, *front.Refusal) {
		subject, no := d.admit(r, path)
		if no == nil {
			return mcp.Principal{Subject: subject}, nil
		}
		refusal := &front.Refusal{Status: no.status, Header: http.Header{}, Body: wire.NewError("", wire.InvalidRequest, no.text, nil)}
		no.header(refusal.Header)
		return mcp.Principal{}, refusal
	}
}

// before lets those in to objects who may come in. Objects know who it is by actor.Caller,
// and see the request as its client sent it.
func (d *door) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodOptions { // a browser asks without credentials
			subject, no := d.admit(r, r.URL.Path)
			if no != nil {
				no.header(w.Header())
				http.Error(w, no.text, no.status)
				return
			}
			r = r.WithContext(actor.WithCaller(r.Context(), subject))
		}
		next.ServeHTTP(w, r)
	})
}

// origin is the address that a request comes from, for counting: of a network that one
// customer has, as one; and whether that is this machine.
func origin(r *http.Request) (address string, here bool) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr, false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host, false
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() && !ip.IsLoopback() {
		if network, err := ip.Prefix(64); err == nil {
			return network.String(), false
		}
	}
	return ip.String(), ip.IsLoopback()
}
