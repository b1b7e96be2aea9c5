package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// How the issuer's keys are kept.
const (
	// KeysAge is how old keys may be before they are fetched anew.
	KeysAge = 10 * time.Minute
	// KeysPause is the shortest time between two fetches.
	KeysPause = 10 * time.Second
	// KeysLast is how old keys may become while the issuer can't be reached.
	KeysLast = 24 * time.Hour
	// fetchLimit is how long the issuer may take to answer.
	fetchLimit = 5 * time.Second
	// maxDocument is far above the size of any issuer's metadata or keys, in bytes.
	maxDocument = 1 << 20
)

// errIssuer: the issuer can't be asked for its keys, and there are none.
var errIssuer = errors.New("the issuer's keys can't be had")

// keys are the issuer's public keys: an oidc.KeySet.
type keys struct {
	issuer, url string // url: where they are; empty: where the issuer says
	algorithms  []jose.SignatureAlgorithm
	client      *http.Client
	now         func() time.Time

	mu      sync.Mutex // held while they are fetched: who comes meanwhile waits for them
	found   []jose.JSONWebKey
	fetched time.Time // with success
	tried   time.Time
	failed  error // of the last try
}

var _ oidc.KeySet = (*keys)(nil)

// VerifySignature implements oidc.KeySet.
func (k *keys) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	signed, err := jose.ParseSignedCompact(token, k.algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errors.New("it is not signed as it must be")
	}
	head := signed.Signatures[0].Header
	all, err := k.get(ctx, false)
	if err != nil {
		return nil, err
	}
	payload, ok := verify(signed, matching(all, head))
	if !ok && len(matching(all, head)) == 0 { // its key may be newer than ours
		if all, err = k.get(ctx, true); err != nil {
			return nil, err
		}
		payload, ok = verify(signed, matching(all, head))
	}
	if !ok {
		return nil, errors.New("none of the issuer's keys has signed it")
	}
	return payload, nil
}

func verify(signed *jose.JSONWebSignature, with []jose.JSONWebKey) ([]byte, bool) {
	for _, key := range with {
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// maxTried bounds the keys that are tried for a token that names none.
const maxTried = 8

// matching are the keys by which a token can be signed.
func matching(all []jose.JSONWebKey, head jose.Header) []jose.JSONWebKey {
	var some []jose.JSONWebKey
	for _, key := range all {
		if (head.KeyID == "" || key.KeyID == head.KeyID) && (key.Algorithm == "" || key.Algorithm == head.Algorithm) && len(some) < maxTried {
			some = append(some, key)
		}
	}
	return some
}

// get returns the keys, fetched anew when they are old or, for a token that names
// another, when that was not just tried.
func (k *keys) get(ctx context.Context, newer bool) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	age := now.Sub(k.fetched)
	wanted := newer || k.fetched.IsZero() || age > KeysAge
	if wanted && (k.tried.IsZero() || now.Sub(k.tried) >= KeysPause) {
		k.tried = now
		found, err := k.fetch(ctx)
		if k.failed = err; err == nil {
			k.found, k.fetched, age = found, now, 0
		}
	}
	if k.fetched.IsZero() || age > KeysLast {
		return nil, fmt.Errorf("%w: %w", errIssuer, k.failed)
	}
	return k.found, nil
}

func (k *keys) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	// The client that happens to be first may leave: the others wait for the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
	defer cancel()
	url := k.url
	if url == "" {
		provider, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.issuer)
		if err != nil {
			return nil, fmt.Errorf("the issuer's metadata: %w", err)
		}
		var metadata struct {
			Keys string `json:"jwks_uri"`
		}
		if err := provider.Claims(&metadata); err != nil || metadata.Keys == "" {
			return nil, errors.New("the issuer's metadata name no jwks_uri")
		}
		url = metadata.Keys
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	// One by one: a key of a kind that is not known here must not cost the others.
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	var found []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.Valid() && key.IsPublic() && key.Use != "enc" {
			found = append(found, key)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: has no public key that signs", url)
	}
	return found, nil
}

// bounded cuts answers off at maxDocument, and follows no redirect: what an issuer
// says comes from where it was asked.
func bounded() *http.Client {
	return &http.Client{
		Transport:     shortened{http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type shortened struct{ http.RoundTripper }

func (s shortened) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxDocument), response.Body}
	}
	return response, err
}

func signatures(names []string) []jose.SignatureAlgorithm {
	var all []jose.SignatureAlgorithm
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		all = append(all, jose.SignatureAlgorithm(name))
	}
	return all
}
