package auth

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

// MetadataPath is where the metadata of a protected resource are (RFC 9728): those of
// the resource at a path are at MetadataPath and that path.
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadata are what a client needs to get a token.
type metadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
}

// Metadata answers below MetadataPath, for the resources that there are. Without an
// issuer there is nothing to tell. Everybody may ask, pages of any origin too.
func (a *Authenticator) Metadata(exists func(path string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", http.MethodGet)
			h.Set("Access-Control-Allow-Headers", "MCP-Protocol-Version")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		path := strings.TrimPrefix(r.URL.Path, MetadataPath)
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, OPTIONS")
			http.Error(w, "GET tells.", http.StatusMethodNotAllowed)
			return
		case a.o.Issuer == "":
			http.Error(w, "This host knows its callers by tokens that its operator has given them; no server gives them out.", http.StatusNotFound)
			return
		case path != "" && !exists(path):
			http.Error(w, "There is no resource at this path.", http.StatusNotFound)
			return
		}
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(metadata{ // the client may have gone
			Resource: a.base(r) + path, AuthorizationServers: []string{a.o.Issuer}, ScopesSupported: a.o.Scopes,
			BearerMethods: []string{"header"}, Name: "kalpa",
		})
	})
}

var hostShape = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]+$`)

// base is the address under which a client has this host.
func (a *Authenticator) base(r *http.Request) string {
	if a.o.Resource != "" {
		return strings.TrimSuffix(a.o.Resource, "/")
	}
	scheme, host := "http://", r.Host
	if r.TLS != nil {
		scheme = "https://"
	}
	if !hostShape.MatchString(host) { // what goes into a header has no quotes
		host = "localhost"
	}
	return scheme + host
}
