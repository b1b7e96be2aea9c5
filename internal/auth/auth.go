package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Options say whose tokens count. There has to be Tokens or an Issuer.
type Options struct {
	Tokens *Tokens

	// Issuer is whose JWTs count; none when it is empty.
	Issuer string
	// KeysURL is where its keys are. Empty: where its metadata say.
	KeysURL string
	// Audience: a JWT is meant for one of these. Required with an Issuer.
	Audience []string
	// Algorithms are the signatures that count, such as RS256: none with a shared secret.
	Algorithms []string
	// Scopes: a JWT is granted all of these.
	Scopes []string
	// Leeway is how far the issuer's clock may be off.
	Leeway time.Duration

	// Resource is where the clients of this host find it, scheme and host; empty: as
	// they ask for it.
	Resource string

	// Client fetches metadata and keys. Nil: one that bounds what it reads.
	Client *http.Client
	// Now is the time. Nil: the system's.
	Now func() time.Time
}

// Authenticator says who calls. It is safe for concurrent use.
type Authenticator struct {
	o        Options
	keys     *keys // nil without an issuer
	verifier *oidc.IDTokenVerifier
}

// New makes an Authenticator, or says what is wrong with its options.
func New(o Options) (*Authenticator, error) {
	switch {
	case o.Tokens.Len() == 0 && o.Issuer == "":
		return nil, errors.New("auth: there is neither a token nor an issuer, so that nobody could call")
	case o.Issuer != "" && len(o.Audience) == 0:
		return nil, errors.New("auth: an issuer goes with an audience")
	case slices.ContainsFunc(o.Algorithms, func(a string) bool { return a == "none" || strings.HasPrefix(a, "HS") }):
		return nil, errors.New("auth: a token must be signed, with a key that is not shared")
	case o.Issuer != "" && len(o.Algorithms) == 0:
		return nil, errors.New("auth: an issuer goes with algorithms")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Client == nil {
		o.Client = bounded()
	}
	a := &Authenticator{o: o}
	if o.Issuer != "" {
		a.keys = &keys{issuer: o.Issuer, url: o.KeysURL, algorithms: signatures(o.Algorithms), client: o.Client, now: o.Now}
		a.verifier = oidc.NewVerifier(o.Issuer, a.keys, &oidc.Config{SkipClientIDCheck: true, SkipExpiryCheck: true, SupportedSigningAlgs: o.Algorithms})
	}
	return a, nil
}

// Denial is why a caller is not let in.
type Denial struct {
	// Status is 401, 403 or, while the issuer can't be asked, 503.
	Status int
	// Challenge is the header WWW-Authenticate; empty with 503.
	Challenge string
	// Text says what is wrong and what to do, and nothing of the token.
	Text string
}

func (d *Denial) Error() string { return d.Text }

// maxToken is far above what issuers make, in bytes.
const maxToken = 16 << 10

// Caller is the subject that a request comes from. path is the resource that is asked
// for, as in its address.
func (a *Authenticator) Caller(r *http.Request, path string) (subject string, no *Denial) {
	token, ok := bearer(r)
	if !ok {
		return "", a.deny(r, path, http.StatusUnauthorized, "", "Credentials are missing: send the header Authorization: Bearer TOKEN.")
	}
	invalid := func(why string) (string, *Denial) {
		return "", a.deny(r, path, http.StatusUnauthorized, "invalid_token", why)
	}
	if len(token) > maxToken {
		return invalid("The token is too long.")
	}
	if subject, ok := a.o.Tokens.subject(token); ok {
		return subject, nil
	}
	if a.verifier == nil || strings.Count(token, ".") != 2 {
		return invalid("The token is not known here.")
	}
	claims, err := a.verify(r.Context(), token)
	var scope *scopeError
	switch {
	case err == nil:
		return claims.Subject, nil
	case errors.As(err, &scope):
		return "", a.deny(r, path, http.StatusForbidden, "insufficient_scope", "The token is not granted the scope "+scope.missing+".")
	case errors.Is(err, errIssuer):
		return "", &Denial{Status: http.StatusServiceUnavailable, Text: "Who issued the token can't be asked for its keys. Send the request again in a moment."}
	default:
		return invalid("The token does not count here: " + err.Error() + ".")
	}
}

type scopeError struct{ missing string }

func (e *scopeError) Error() string { return "it lacks the scope " + e.missing }

func (a *Authenticator) verify(ctx context.Context, token string) (*oidc.IDToken, error) {
	// First of all, for the verifier's error does not tell that there are none.
	if _, err := a.keys.get(ctx, false); err != nil {
		return nil, err
	}
	t, err := a.verifier.Verify(ctx, token)
	if err != nil {
		return nil, plain(err)
	}
	var more struct {
		NotBefore float64  `json:"nbf"`
		Scope     string   `json:"scope"`
		Scp       flexible `json:"scp"` // as some issuers have it
		Expiry    *float64 `json:"exp"`
	}
	if err := t.Claims(&more); err != nil {
		return nil, errors.New("its claims can't be read")
	}
	now := a.o.Now()
	switch {
	case more.Expiry == nil:
		return nil, errors.New("it has no end")
	case !now.Before(t.Expiry.Add(a.o.Leeway)):
		return nil, errors.New("it has expired")
	case now.Add(a.o.Leeway).Before(time.Unix(int64(more.NotBefore), 0)):
		return nil, errors.New("it does not count yet")
	case !slices.ContainsFunc(t.Audience, func(aud string) bool { return slices.Contains(a.o.Audience, aud) }):
		return nil, errors.New("it is meant for another audience")
	case t.Subject == "" || len(t.Subject) > maxSubject || strings.HasPrefix(t.Subject, SubjectPrefix):
		return nil, errors.New("it has no subject that can be taken")
	}
	granted := append(strings.Fields(more.Scope), more.Scp...)
	for _, s := range a.o.Scopes {
		if !slices.Contains(granted, s) {
			return nil, &scopeError{s}
		}
	}
	return t, nil
}

// maxSubject bounds what is stored with each session, in bytes.
const maxSubject = 512

// plain says what kind of thing is wrong, without what the token says: an answer must
// be no way to try what a host would take.
func plain(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "different provider"):
		return errors.New("it is another issuer's")
	case strings.Contains(text, "malformed jwt"):
		return errors.New("it is not signed as it must be")
	default:
		return errors.New("it is not signed by the issuer")
	}
}

// flexible is a list of texts, or one text of words.
type flexible []string

func (f *flexible) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), "[]")
	*f = strings.FieldsFunc(text, func(r rune) bool { return r == '"' || r == ',' || r == ' ' })
	return nil
}

// bearer is the token that a request bears: in one header Authorization.
func bearer(r *http.Request) (string, bool) {
	all := r.Header.Values("Authorization")
	if len(all) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(all[0], " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != "" && !strings.ContainsAny(token, " \t")
}

func (a *Authenticator) deny(r *http.Request, path string, status int, code, text string) *Denial {
	parts := []string{}
	if a.o.Issuer != "" {
		parts = append(parts, fmt.Sprintf("resource_metadata=%q", a.base(r)+MetadataPath+path))
	} else {
		parts = append(parts, `realm="kalpa"`)
	}
	if len(a.o.Scopes) > 0 {
		parts = append(parts, fmt.Sprintf("scope=%q", strings.Join(a.o.Scopes, " ")))
	}
	if code != "" {
		parts = append(parts, fmt.Sprintf("error=%q", code), fmt.Sprintf("error_description=%q", text))
	}
	return &Denial{Status: status, Challenge: "Bearer " + strings.Join(parts, ", "), Text: text}
}
