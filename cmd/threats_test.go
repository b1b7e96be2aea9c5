package cmd_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/kalpahost/kalpa/internal/auth"
)

func TestASessionIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	file, token := tokens(t, "ada", "eve")
	h := host(t, map[string]string{"tokens": file}, "--auth-tokens-file", "tokens")
	if a := h.post(initialize); a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") != `Bearer realm="kalpa"` || !strings.Contains(a.body, "Authorization: Bearer TOKEN") {
		t.Errorf("without credentials: %+v", a)
	}
	session := h.session(bearer(token["ada"])...)
	h.works(session, bearer(token["ada"])...)
	for range 2 {
		eve := append(bearer(token["eve"]), "Mcp-Session-Id", session)
		for name, a := range map[string]answer{
			"POST": h.post(increment, eve...), "GET": h.send(http.MethodGet, h.url, "", append(eve, "Accept", "text/event-stream")...), "DELETE": h.send(http.MethodDelete, h.url, "", eve...),
		} {
			if a.status != http.StatusForbidden || !strings.Contains(a.body, "belongs to another caller") {
				t.Errorf("%s by another: %+v", name, a)
			}
		}
		h.works(session, bearer(token["ada"])...)
		h.kill() // and it is known after that, too
		h.start()
	}
}

// A whole issuer: what its tokens open, and what they do not.
func TestABadTokenOpensNothing(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	issuer := httptest.NewServer(mux)
	defer issuer.Close()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "RS256"}}})
	})
	token := func(alg jose.SignatureAlgorithm, with any, change func(map[string]any)) string {
		t.Helper()
		claims := map[string]any{"iss": issuer.URL, "sub": "ada", "aud": "https://mcp.example", "exp": time.Now().Add(time.Hour).Unix(), "scope": "mcp"}
		if change != nil {
			change(claims)
		}
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: with}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := json.Marshal(claims)
		signed, err := s.Sign(body)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := signed.CompactSerialize()
		return text
	}
	set := func(k string, v any) func(map[string]any) { return func(c map[string]any) { c[k] = v } }
	h := host(t, map[string]string{"kalpa.yaml": "servers: {files: {plugin: demo}}\n"}, "--config", "kalpa.yaml",
		"--auth-issuer", issuer.URL, "--auth-audience", "https://mcp.example", "--auth-scope", "mcp")
	good := token(jose.RS256, key, nil)
	session := h.session(bearer(good)...)
	h.works(session, bearer(good)...)
	for name, tc := range map[string]struct {
		token  string
		status int
		code   string
	}{
		"expired":                {token(jose.RS256, key, set("exp", time.Now().Add(-time.Hour).Unix())), 401, "invalid_token"},
		"another audience":       {token(jose.RS256, key, set("aud", "https://else.example")), 401, "invalid_token"},
		"another issuer":         {token(jose.RS256, key, set("iss", "https://else.example")), 401, "invalid_token"},
		"HS256 with another key": {token(jose.HS256, []byte(strings.Repeat("k", 32)), nil), 401, "invalid_token"},
		"no scope":               {token(jose.RS256, key, set("scope", "other")), 403, "insufficient_scope"},
		"cut":                    {good[:len(good)-4], 401, "invalid_token"},
		"garbage":                {"a.b.c", 401, "invalid_token"},
	} {
		a := h.post(increment, append(bearer(tc.token), "Mcp-Session-Id", session)...)
		challenge := a.header.Get("WWW-Authenticate")
		want := `Bearer resource_metadata="` + h.base + `/.well-known/oauth-protected-resource/mcp/files", scope="mcp", error="` + tc.code + `"`
		if a.status != tc.status || !strings.HasPrefix(challenge, want) {
			t.Errorf("%s: %d %s", name, a.status, challenge)
		}
	}
	for _, path := range []string{"", "/mcp/files"} {
		if a := h.send(http.MethodGet, h.base+auth.MetadataPath+path, ""); a.status != http.StatusOK || !strings.Contains(a.body, `"authorization_servers":["`+issuer.URL+`"]`) || !strings.Contains(a.body, `"resource":"`+h.base+path+`"`) {
			t.Errorf("the metadata of %q: %+v", path, a)
		}
	}
	h.works(session, bearer(good)...)
	for _, secret := range []string{good, good[len(good)-40:]} {
		if strings.Contains(h.log.String(), secret) {
			t.Error("the log has a token")
		}
	}
}

// A name that leads to this machine without being one of its own (DNS rebinding), and
// pages of elsewhere.
func TestForgedHostsAndOriginsAreRefused(t *testing.T) {
	t.Parallel()
	h := host(t, nil)
	session := h.session()
	for name, headers := range map[string][]string{
		"a name that was made to lead here": {"Host", "evil.example"},
		"that with a port":                  {"Host", "evil.example:8080"},
		"a name that begins as ours":        {"Host", "localhost.evil.example"},
		"a page of elsewhere":               {"Origin", "https://evil.example"},
		"a page without an origin":          {"Origin", "null"},
		"a page that begins as ours":        {"Origin", "http://localhost.evil.example"},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions} {
			body := ""
			if method == http.MethodPost {
				body = increment
			}
			if a := h.send(method, h.url, body, append(headers, "Mcp-Session-Id", session)...); a.status != http.StatusForbidden || a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s, %s: %d %v", name, method, a.status, a.header)
			}
		}
	}
	h.works(session)
}

// Clients that send a little and then wait are cut off, and hold up nobody.
func TestASlowClientIsCutOff(t *testing.T) {
	t.Parallel()
	h := host(t, nil)
	session := h.session()
	address := strings.TrimPrefix(h.base, "http://")
	var conns []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
		conns = append(conns, c)
	}
	h.works(session)
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, c); err != nil && os.IsTimeout(err) {
			t.Fatal("it is still connected after a minute")
		}
	}
	h.works(session)
}

// A body that is too large is refused when it is announced, or when it has become so.
func TestAHugeBodyIsRefusedUnread(t *testing.T) {
	t.Parallel()
	h := host(t, nil)
	session := h.session()
	before := h.resident()
	for name, head := range map[string]string{
		"announced": "Content-Length: 1073741824\r\n\r\n{",
		"chunked":   "Transfer-Encoding: chunked\r\n\r\n",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\n%s", session, head)
		var sent int64
		if name == "chunked" {
			go func() {
				chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", 1<<20, bytes.Repeat([]byte(" "), 1<<20))
				for range 1024 {
					if _, err := c.Write(chunk); err != nil {
						return
					}
				}
			}()
		}
		w, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v after %d bytes", name, err, sent)
			continue
		}
		if w.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %s", name, w.Status)
		}
	}
	h.works(session)
	if more := h.resident() - before; more > 256<<20*detector {
		t.Errorf("it holds %d MiB more than before", more>>20)
	}
}

// Connections on which nothing is asked are closed for those on which something is.
func TestIdleConnectionsDoNotKeepOthersOut(t *testing.T) {
	t.Parallel()
	var files syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	many := min(10_000, int(files.Cur)-1000)
	h := host(t, nil, "--max-connections", "500")
	session := h.session()
	before := h.resident()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range many {
		c, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
		if err != nil {
			t.Fatalf("the %d. of %d: %v", i, many, err)
		}
		conns = append(conns, c)
		if i%1000 == 0 {
			h.works(session)
		}
	}
	h.client.CloseIdleConnections()
	h.works(session)
	if more := h.resident() - before; more > 64<<20*detector {
		t.Errorf("it holds %d MiB more than before", more>>20)
	}
}

// A client that opens sessions over and over comes to its limits; others do not.
func TestOpeningSessionsInALoopComesToAnEnd(t *testing.T) {
	t.Parallel()
	file, token := tokens(t, "loop", "number", "ada")
	h := host(t, map[string]string{"tokens": file}, "--auth-tokens-file", "tokens", "--max-open-rate", "5", "--max-sessions-per-caller", "4")
	session := h.session(bearer(token["ada"])...)
	opened, refused := 0, answer{}
	for range 40 {
		a := h.post(initialize, bearer(token["loop"])...)
		if a.status == http.StatusOK {
			opened++
		} else {
			refused = a
		}
	}
	if opened != 4 || refused.status != http.StatusTooManyRequests || refused.header.Get("Retry-After") == "" {
		t.Errorf("%d were opened; the last answer: %+v", opened, refused)
	}
	h.works(session, bearer(token["ada"])...)
	h.session(bearer(token["number"])...)
}

// Requests that are sent and abandoned stay under way, and are bounded all the same, over
// all sessions; who comes too late is told so, and served when there is room.
func TestAbandonedRequestsDoNotPileUp(t *testing.T) {
	t.Parallel()
	h := host(t, nil, "--max-requests", "3", "--admin", "127.0.0.1:0")
	session := h.session()
	h.works(session)
	for range 3 {
		h.abandon(h.session(), `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"sleep","arguments":{"ms":600000}}}`)
	}
	for name, a := range map[string]answer{"a call": h.post(increment, "Mcp-Session-Id", session), "another session": h.post(initialize)} {
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "of all its sessions") || !strings.Contains(a.body, "send it again") {
			t.Errorf("%s beyond the limit: %+v", name, a)
		}
	}
	if a := h.send(http.MethodGet, h.admin()+"/metrics", ""); !strings.Contains(a.body, "kalpa_mcp_requests_waiting{server=\"demo\"} 3") || !strings.Contains(a.body, "kalpa_mcp_refusals_total{limit=\"max_requests\",server=\"demo\"} 2") {
		t.Errorf("the figures do not tell of it:\n%s", a.body)
	}
	h.kill()
	h.start() // what was under way is lost, and not in anybody's way
	h.works(session)
}

// A caller that asks too often is told when to come again, and others are not.
func TestTooManyRequestsAreRefusedByCaller(t *testing.T) {
	t.Parallel()
	file, token := tokens(t, "flood", "ada")
	h := host(t, map[string]string{"tokens": file}, "--auth-tokens-file", "tokens", "--max-rate", "1", "--max-session-rate", "0")
	flood := h.session(bearer(token["flood"])...)
	session := h.session(bearer(token["ada"])...)
	statuses := map[int]int{}
	for range 20 {
		a := h.post(`{"jsonrpc":"2.0","id":3,"method":"ping"}`, append(bearer(token["flood"]), "Mcp-Session-Id", flood)...)
		if statuses[a.status]++; a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != "1" {
			t.Errorf("%+v", a)
		}
	}
	if statuses[http.StatusTooManyRequests] == 0 || len(statuses) > 2 {
		t.Errorf("%v", statuses)
	}
	h.works(session, bearer(token["ada"])...)
	// Who tries tokens out is slowed down as well.
	statuses = map[int]int{}
	for range 20 {
		statuses[h.post(initialize, bearer("kalpa_guess")...).status]++
	}
	if statuses[http.StatusTooManyRequests] == 0 || statuses[http.StatusUnauthorized] == 0 {
		t.Errorf("of who guesses: %v", statuses)
	}
}

// What callers send is in the log as what it is: no line there is a caller's.
func TestNothingThatIsSentForgesALogLine(t *testing.T) {
	t.Parallel()
	h := host(t, nil, "--log-format", "text")
	session := h.session()
	const forged = `time=2026-01-01T00:00:00Z level=ERROR msg=forged`
	escaped, _ := json.Marshal("x\n" + forged + "\r\n\x1b[31m\u2028" + forged)
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":` + string(escaped) + `,"method":"tools/call","params":{"name":` + string(escaped) + `,"arguments":{}}}`,
		`{"jsonrpc":"2.0","id":4,"method":` + string(escaped) + `}`,
		"x\n" + forged,
	} {
		h.post(body, "Mcp-Session-Id", session)
	}
	for _, id := range []string{"x " + forged, `"` + forged, "x\t" + forged, strings.Repeat("x", 5000)} {
		h.post(increment, "Mcp-Session-Id", id)
	}
	h.send(http.MethodGet, h.base+"/mcp/%0a"+strings.ReplaceAll(forged, " ", "%20"), "")
	h.works(session)
	for line := range strings.Lines(h.log.String()) {
		if !strings.HasPrefix(line, "time=") || strings.HasPrefix(line, forged) || strings.ContainsAny(line, "\r\x1b") {
			t.Errorf("a line of the log: %q", line)
		}
	}
}

// Names are names: none leads out of where it belongs.
func TestNoNameLeadsOutOfItsPlace(t *testing.T) {
	t.Parallel()
	h := host(t, map[string]string{"secret": "not to be read"})
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	session := h.session()
	for _, path := range []string{
		"/../secret", "/mcp/../../secret", "/mcp/%2e%2e/%2e%2e/secret", "/mcp/..%2f..%2fsecret", "//etc/passwd", "/mcp/%00", "/.well-known/oauth-protected-resource/../../secret",
		"/objects/../../secret", "/data/", "/%5c..%5csecret",
	} {
		r, _ := http.NewRequest(http.MethodGet, h.base, nil)
		r.URL.Opaque = strings.TrimPrefix(h.base, "http:") + path
		w, err := h.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(w.Body)
		_ = w.Body.Close()
		if w.StatusCode < 300 || strings.Contains(string(body), "not to be read") {
			t.Errorf("%s: %d %s", path, w.StatusCode, body)
		}
	}
	for _, id := range []string{"../../secret", "..", "/etc/passwd", "a/b", "%2e%2e"} {
		if a := h.post(increment, "Mcp-Session-Id", id); a.status != http.StatusNotFound {
			t.Errorf("the session %q: %+v", id, a)
		}
	}
	h.works(session)
	entries, err := os.ReadDir(h.dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the data and the secret there is more: %v %v", entries, err)
	}
}

// No secret is in what a host writes: its lines, its errors, its trace.
func TestNoSecretIsWrittenAnywhere(t *testing.T) {
	t.Parallel()
	const fromEnv, fromFile, plain = "s3cret-from-env", "s3cret-from-file", "s3cret-in-file"
	file, token := tokens(t, "ada")
	h := &running{t: t, dir: t.TempDir(), client: &http.Client{Timeout: time.Minute}, env: []string{"HOSTS_SECRET=" + fromEnv, "KALPA_ADMIN_TOKEN=" + fromEnv + "-admin"}}
	h.write("tokens", file)
	h.write("key", fromFile)
	h.write("kalpa.yaml", `
auth: {tokens_file: tokens}
trace_file: spans
servers:
  child:
    command: sh
    args: [-c, "echo starting >&2; exit 3", "${env:HOSTS_SECRET}"]
    env: {A: "${file:key}", B: "`+plain+`"}
  demo: {plugin: demo}
`)
	h.args = []string{"--config", "kalpa.yaml", "--admin", "127.0.0.1:0"}
	h.start()
	a := h.post(initialize, bearer(token["ada"])...)
	if !strings.Contains(a.body, "exited with status 3") {
		t.Errorf("the child's end is not told: %+v", a)
	}
	h.post(initialize, bearer(token["ada"]+"x")...)
	h.send(http.MethodPost, h.base+"/mcp/demo", initialize, bearer(token["ada"])...)
	h.reload()
	h.signal(syscall.SIGTERM)
	_ = h.cmd.Wait()
	h.cmd = nil
	spans, err := os.ReadFile(filepath.Join(h.dir, "spans"))
	if err != nil {
		t.Fatal(err)
	}
	all := h.out.String() + h.log.String() + string(spans) + a.body
	for _, secret := range []string{fromEnv, fromFile, plain, token["ada"]} {
		if i := strings.Index(all, secret); i >= 0 {
			t.Errorf("%s is in %q", secret, all[max(0, i-200):i+len(secret)])
		}
	}
	if !strings.Contains(h.out.String(), "child: sh ********") {
		t.Errorf("what is hosted is not said: %s", h.out)
	}
}
