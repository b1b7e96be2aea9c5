package auth_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/google/go-cmp/cmp"

	"github.com/kalpahost/kalpa/internal/auth"
)

// A token that does not count is refused, with a challenge that says so and what kind
// of thing is wrong, and nothing of the token.
func TestBadTokensAreRefused(t *testing.T) {
	i := newIssuer(t)
	secret := []byte("an issuer that has a shared key, which is not to be used: 32")
	i.set(
		jose.JSONWebKey{Key: rsaKey(), KeyID: "one", Algorithm: "RS256", Use: "sig"},
		jose.JSONWebKey{Key: rsaKey(), KeyID: "enc", Use: "enc"},
		jose.JSONWebKey{Key: secret, KeyID: "shared", Algorithm: "HS256"},
	)
	a := i.authenticator(t, newClock(), nil)
	good := sign(t, jose.RS256, "one", rsaKey(), i.claims(nil))
	rs := func(change map[string]any) string { return sign(t, jose.RS256, "one", rsaKey(), i.claims(change)) }
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	const invalid, unauthorized, forbidden = "invalid_token", http.StatusUnauthorized, http.StatusForbidden
	for name, tc := range map[string]struct {
		tokens []string
		status int
		code   string
		says   string
	}{
		"good":                    {tokens: []string{good}},
		"none":                    {nil, unauthorized, "", "Credentials are missing"},
		"two headers":             {[]string{good, good}, unauthorized, "", "Credentials are missing"},
		"garbage":                 {[]string{"x.y.z"}, unauthorized, invalid, "not signed as it must be"},
		"unknown token":           {[]string{"kalpa_nobody"}, unauthorized, invalid, "not known here"},
		"too long":                {[]string{strings.Repeat("a", 20_000)}, unauthorized, invalid, "too long"},
		"expired":                 {[]string{rs(map[string]any{"exp": now.Add(-31 * time.Second).Unix()})}, unauthorized, invalid, "expired"},
		"expired within leeway":   {tokens: []string{rs(map[string]any{"exp": now.Add(-29 * time.Second).Unix()})}},
		"without an end":          {[]string{rs(map[string]any{"exp": nil})}, unauthorized, invalid, "no end"},
		"not yet":                 {[]string{rs(map[string]any{"nbf": now.Add(31 * time.Second).Unix()})}, unauthorized, invalid, "not count yet"},
		"not yet within leeway":   {tokens: []string{rs(map[string]any{"nbf": now.Add(29 * time.Second).Unix()})}},
		"wrong audience":          {[]string{rs(map[string]any{"aud": "https://elsewhere.example"})}, unauthorized, invalid, "another audience"},
		"no audience":             {[]string{rs(map[string]any{"aud": nil})}, unauthorized, invalid, "another audience"},
		"one audience of several": {tokens: []string{rs(map[string]any{"aud": []string{"x", audience}})}},
		"wrong issuer":            {[]string{rs(map[string]any{"iss": "https://evil.example"})}, unauthorized, invalid, "another issuer's"},
		"no subject":              {[]string{rs(map[string]any{"sub": ""})}, unauthorized, invalid, "no subject"},
		"a token's subject":       {[]string{rs(map[string]any{"sub": "token:root"})}, unauthorized, invalid, "no subject"},
		"alg none":                {[]string{unsigned(t, i.claims(nil))}, unauthorized, invalid, "not signed as it must be"},
		"signature cut off":       {[]string{head + "." + body + "."}, unauthorized, invalid, "not signed"},
		"signature of another":    {[]string{head + "." + body + "x." + signature}, unauthorized, invalid, "not signed"},
		"HS256 with the RSA key":  {[]string{sign(t, jose.HS256, "one", pemOf(t, rsaKey().Public()), i.claims(nil))}, unauthorized, invalid, "not signed as it must be"},
		"HS256 with a shared key": {[]string{sign(t, jose.HS256, "shared", secret, i.claims(nil))}, unauthorized, invalid, "not signed as it must be"},
		"another key's RS256":     {[]string{sign(t, jose.RS512, "one", rsaKey(), i.claims(nil))}, unauthorized, invalid, "not signed as it must be"},
		"a key of another's":      {[]string{sign(t, jose.ES256, "one", ecKey(t), i.claims(nil))}, unauthorized, invalid, "not signed by the issuer"},
		"a key that encrypts":     {[]string{sign(t, jose.RS256, "enc", rsaKey(), i.claims(nil))}, unauthorized, invalid, "not signed by the issuer"},
		"no scope":                {[]string{rs(map[string]any{"scope": "read"})}, forbidden, "insufficient_scope", "the scope mcp"},
		"scope as a list":         {tokens: []string{rs(map[string]any{"scope": nil, "scp": []string{"read", "mcp"}})}},
	} {
		subject, no := a.Caller(bearing(tc.tokens...), "/mcp/files")
		if tc.status == 0 {
			if no != nil || subject != "ada" {
				t.Errorf("%s: %q, %+v", name, subject, no)
			}
			continue
		}
		if no == nil {
			t.Errorf("%s: let in as %q", name, subject)
			continue
		}
		if no.Status != tc.status || !strings.Contains(no.Text, tc.says) || subject != "" {
			t.Errorf("%s: %d %s, want %d %s", name, no.Status, no.Text, tc.status, tc.says)
		}
		want := `Bearer resource_metadata="http://mcp.example/.well-known/oauth-protected-resource/mcp/files", scope="mcp"`
		if tc.code != "" {
			want += `, error="` + tc.code + `", error_description="`
		}
		if !strings.HasPrefix(no.Challenge, want) {
			t.Errorf("%s: %s, want %s", name, no.Challenge, want)
		}
		for _, token := range tc.tokens {
			if strings.Contains(no.Challenge+no.Text, token) {
				t.Errorf("%s: the answer has the token: %+v", name, no)
			}
		}
	}
}

// The token in the address is none: addresses are logged.
func TestATokenInTheAddressIsNone(t *testing.T) {
	i := newIssuer(t)
	a := i.authenticator(t, newClock(), nil)
	r := bearing()
	r.URL.RawQuery = "access_token=" + sign(t, jose.RS256, "one", rsaKey(), i.claims(nil))
	if _, no := a.Caller(r, "/mcp"); no == nil || no.Status != http.StatusUnauthorized {
		t.Errorf("%+v", no)
	}
}

// Keys that the issuer has changed count at once, and those it has withdrawn no more
// once they are old; nobody makes a host ask more often than it may.
func TestKeysAreRotated(t *testing.T) {
	i, c := newIssuer(t), newClock()
	a := i.authenticator(t, c, nil)
	is := func(what, kid string, alg jose.SignatureAlgorithm, key any, counts bool, asked int64) {
		t.Helper()
		claims := i.claims(map[string]any{"exp": c.now().Add(time.Hour).Unix()})
		if _, no := a.Caller(bearing(sign(t, alg, kid, key, claims)), ""); (no == nil) != counts {
			t.Errorf("%s: %+v", what, no)
		}
		if n := i.asked.Load(); n != asked {
			t.Errorf("%s: the issuer was asked %d times, not %d", what, n, asked)
		}
	}
	second := ecKey(t)
	is("the first key", "one", jose.RS256, rsaKey(), true, 1)
	for range 20 {
		is("a key that there is not", "two", jose.ES256, second, false, 1) // asked just now
	}
	i.set(jose.JSONWebKey{Key: second, KeyID: "two"})
	c.advance(auth.KeysPause)
	is("a key that is new", "two", jose.ES256, second, true, 2)
	is("a key that was withdrawn", "one", jose.RS256, rsaKey(), false, 2)
	i.broken.Store(true)
	c.advance(auth.KeysAge + 1)
	is("while the issuer is down", "two", jose.ES256, second, true, 3)
	is("and again", "two", jose.ES256, second, true, 3)
	c.advance(auth.KeysLast)
	is("when it is down for long", "two", jose.ES256, second, false, 4)
	i.broken.Store(false)
	c.advance(auth.KeysPause)
	is("when it is back", "two", jose.ES256, second, true, 5)
}

func TestAnIssuerThatIsDownIsNobodysFault(t *testing.T) {
	i, c := newIssuer(t), newClock()
	i.broken.Store(true)
	a := i.authenticator(t, c, nil)
	token := sign(t, jose.RS256, "one", rsaKey(), i.claims(nil))
	if _, no := a.Caller(bearing(token), ""); no == nil || no.Status != http.StatusServiceUnavailable || no.Challenge != "" {
		t.Errorf("%+v", no)
	}
	// Metadata that name another issuer are not that one's.
	a = i.authenticator(t, c, func(o *auth.Options) { o.Issuer += "/" })
	if _, no := a.Caller(bearing(token), ""); no == nil || no.Status != http.StatusServiceUnavailable {
		t.Errorf("%+v", no)
	}
}

func TestTokensAreKnownByTheirHash(t *testing.T) {
	token, line, err := auth.NewToken("ada@example")
	if err != nil || !strings.HasPrefix(token, "kalpa_") || strings.Contains(line, token) {
		t.Fatal(token, line, err)
	}
	tokens, err := auth.ParseTokens([]byte("# ours\n\n" + line + "  # since May\n"))
	if err != nil || tokens.Len() != 1 {
		t.Fatal(tokens.Len(), err)
	}
	a, err := auth.New(auth.Options{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	if subject, no := a.Caller(bearing(token), "/mcp"); no != nil || subject != "token:ada@example" {
		t.Error(subject, no)
	}
	other, _, _ := auth.NewToken("ada@example")
	if _, no := a.Caller(bearing(other), "/mcp"); no == nil || no.Challenge != `Bearer realm="kalpa", error="invalid_token", error_description="The token is not known here."` {
		t.Errorf("%+v", no)
	}
	for _, name := range []string{"", "a b", "a#", "-x", strings.Repeat("a", 200), "a\nb"} {
		if _, _, err := auth.NewToken(name); err == nil {
			t.Errorf("%q makes a token", name)
		}
	}
}

func TestALineThatIsNoTokenIsNamedAndNotShown(t *testing.T) {
	_, line, _ := auth.NewToken("ada")
	token, _, _ := auth.NewToken("bob")
	_, err := auth.ParseTokens([]byte(strings.Join([]string{line, "bob", "bob " + token, "b/ " + line[4:], line, "bob sha256:abcd"}, "\n")))
	want := strings.Join([]string{
		"line 2: a line has a name and a hash, as `kalpa token NAME` prints it",
		"line 3: the second word is no sha256: and its 64 hexadecimal digits (a token itself must not stand here)",
		`line 4: "b/" is no name for a token's bearer`,
		"line 5: the same token stands on an earlier line",
		"line 6: the second word is no sha256: and its 64 hexadecimal digits (a token itself must not stand here)",
	}, "; ")
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestAuthenticationThatLetsNobodyOrEverybodyInIsRefused(t *testing.T) {
	for name, o := range map[string]auth.Options{
		"nothing":             {},
		"an issuer alone":     {Issuer: "https://id.example", Algorithms: []string{"RS256"}},
		"unsigned":            {Issuer: "https://id.example", Audience: []string{"a"}, Algorithms: []string{"none"}},
		"a shared secret":     {Issuer: "https://id.example", Audience: []string{"a"}, Algorithms: []string{"RS256", "HS256"}},
		"no algorithm at all": {Issuer: "https://id.example", Audience: []string{"a"}},
	} {
		if _, err := auth.New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestMetadataSayWhereTokensComeFrom(t *testing.T) {
	i := newIssuer(t)
	exists := func(path string) bool { return path == "/mcp/files" }
	for _, tc := range []struct {
		path, resource, base string
		status               int
	}{
		{auth.MetadataPath, "http://mcp.example", "", http.StatusOK},
		{auth.MetadataPath + "/mcp/files", "http://mcp.example/mcp/files", "", http.StatusOK},
		{auth.MetadataPath + "/mcp/files", "https://public.example/mcp/files", "https://public.example/", http.StatusOK},
		{auth.MetadataPath + "/mcp/other", "", "", http.StatusNotFound},
	} {
		a := i.authenticator(t, newClock(), func(o *auth.Options) { o.Resource = tc.base })
		w := httptest.NewRecorder()
		a.Metadata(exists).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://mcp.example"+tc.path, nil))
		if w.Code != tc.status {
			t.Errorf("%s: %d", tc.path, w.Code)
			continue
		}
		if tc.status != http.StatusOK {
			continue
		}
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"resource": tc.resource, "authorization_servers": []any{i.URL}, "scopes_supported": []any{"mcp"},
			"bearer_methods_supported": []any{"header"}, "resource_name": "kalpa",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", tc.path, diff)
		}
	}
}
