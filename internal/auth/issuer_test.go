package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/kalpahost/kalpa/internal/auth"
)

// issuer is an OpenID Connect issuer with keys that can be changed.
type issuer struct {
	*httptest.Server
	asked  atomic.Int64 // for its keys
	broken atomic.Bool

	mu   sync.Mutex
	keys []jose.JSONWebKey
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		if i.broken.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		set := map[string]any{"keys": append([]any{map[string]any{"kty": "of a kind yet to come", "kid": "x"}}, public(i.keys)...)}
		_ = json.NewEncoder(w).Encode(set)
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	i.set(jose.JSONWebKey{Key: rsaKey(), KeyID: "one", Algorithm: "RS256", Use: "sig"})
	return i
}

func public(keys []jose.JSONWebKey) (all []any) {
	for _, k := range keys {
		if p := k.Public(); p.Valid() {
			all = append(all, p)
		} else {
			all = append(all, k) // a shared secret has no public half
		}
	}
	return all
}

func (i *issuer) set(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

const audience = "https://mcp.example"

var now = time.Unix(1_800_000_000, 0)

func (i *issuer) claims(change map[string]any) map[string]any {
	c := map[string]any{"iss": i.URL, "sub": "ada", "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "scope": "mcp read"}
	maps.Copy(c, change)
	for k, v := range change {
		if v == nil {
			delete(c, k)
		}
	}
	return c
}

// sign makes a JWT, of any algorithm and with any key.
func sign(t *testing.T, alg jose.SignatureAlgorithm, kid string, key any, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", kid).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// unsigned is a JWT of the algorithm "none".
func unsigned(t *testing.T, claims map[string]any) string {
	t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(body) + "."
}

func pemOf(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func ecKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// clock is a time that tests move.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock { c := &clock{}; c.nanos.Store(now.UnixNano()); return c }

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

func (i *issuer) authenticator(t *testing.T, c *clock, change func(*auth.Options)) *auth.Authenticator {
	t.Helper()
	o := auth.Options{
		Issuer: i.URL, Audience: []string{"https://other.example", audience}, Algorithms: []string{"RS256", "ES256"},
		Leeway: 30 * time.Second, Scopes: []string{"mcp"}, Now: c.now,
	}
	if change != nil {
		change(&o)
	}
	a, err := auth.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func bearing(tokens ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://mcp.example/mcp/files", nil)
	for _, token := range tokens {
		r.Header.Add("Authorization", "Bearer "+token)
	}
	return r
}
