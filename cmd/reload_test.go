package cmd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// pair makes a certificate for this machine, known by its name, and its key.
func pair(t *testing.T, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// shown is the name on the certificate that the host shows.
func (h *running) shown() string {
	h.t.Helper()
	c, err := tls.Dial("tcp", strings.TrimPrefix(h.base, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // what it shows is what is looked at
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestACertificateIsChangedWhileConnectionsAreOpen(t *testing.T) {
	t.Parallel()
	cert, key := pair(t, "first")
	h := &running{t: t, dir: t.TempDir(), args: []string{"--tls-cert", "cert.pem", "--tls-key", "key.pem"}}
	h.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as above
	h.write("cert.pem", cert)
	h.write("key.pem", key)
	h.start()
	if !strings.HasPrefix(h.url, "https://127.0.0.1:") {
		t.Fatal(h.url)
	}
	session := h.session()
	h.works(session)
	if got := h.shown(); got != "first" {
		t.Error(got)
	}
	// By itself, when the files have changed; what is half written changes nothing.
	cert, key = pair(t, "second")
	h.write("cert.pem", cert)
	h.within("the half of it is noticed", func() bool { h.shown(); return strings.Contains(h.log.String(), "can't be used") })
	if got := h.shown(); got != "first" {
		t.Errorf("with the half of it: %s", got)
	}
	h.write("key.pem", key)
	h.within("the second is shown", func() bool { return h.shown() == "second" })
	// At once, on SIGHUP.
	cert, key = pair(t, "third")
	h.write("cert.pem", cert)
	h.write("key.pem", key)
	h.reload()
	if got := h.shown(); got != "third" {
		t.Errorf("after SIGHUP: %s", got)
	}
	h.write("key.pem", "no key")
	h.reload()
	if got := h.shown(); got != "third" || !strings.Contains(h.log.String(), "is not taken over") {
		t.Errorf("after SIGHUP with what is no key: %s", got)
	}
	h.works(session)
}

// SIGHUP takes over what can change, and says what can't; sessions go on.
func TestAConfigurationIsTakenOverWhileSessionsAreOpen(t *testing.T) {
	t.Parallel()
	file, token := tokens(t, "ada", "bob")
	ada, _, _ := strings.Cut(file, "\n")
	h := host(t, map[string]string{
		"tokens":     ada,
		"kalpa.yaml": "auth: {tokens_file: tokens}\nservers:\n  one: {plugin: demo}\n  echo: {command: sh, args: [-c, 'echo first >&2; exit 3']}\n",
	}, "--config", "kalpa.yaml")
	one, echo, two := h.base+"/mcp/one", h.base+"/mcp/echo", h.base+"/mcp/two"
	h.url = one
	session := h.session(bearer(token["ada"])...)
	if a := h.post(initialize, bearer(token["bob"])...); a.status != http.StatusUnauthorized {
		t.Errorf("bob, before: %d", a.status)
	}
	if a := h.send(http.MethodPost, echo, initialize, bearer(token["ada"])...); !strings.Contains(a.body, "first") {
		t.Errorf("the command, before: %+v", a)
	}
	h.write("tokens", file)
	h.write("kalpa.yaml", "auth: {tokens_file: tokens}\nisolates: 2\nmax_message: 1KiB\nservers:\n  two: {plugin: demo}\n  one: {plugin: demo}\n  echo: {command: sh, args: [-c, 'echo second >&2; exit 3']}\n")
	h.reload()
	if !strings.Contains(h.log.String(), "only a restart takes over\" keys=isolates") {
		t.Error("what takes a restart is not said")
	}
	h.works(session, bearer(token["ada"])...)
	h.session(bearer(token["bob"])...)
	if a := h.send(http.MethodPost, echo, initialize, bearer(token["ada"])...); !strings.Contains(a.body, "second") {
		t.Errorf("the command, after: %+v", a)
	}
	if a := h.send(http.MethodPost, two, initialize, bearer(token["ada"])...); a.status != http.StatusOK {
		t.Errorf("the server that is new: %+v", a)
	}
	if a := h.post(initialize+strings.Repeat(" ", 1<<10), bearer(token["ada"])...); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("the limit that is new: %+v", a)
	}

	// What is wrong changes nothing.
	h.write("kalpa.yaml", "auth: {tokens_file: missing}\nservers: {one: {plugin: demo}}\n")
	h.reload()
	h.works(session, bearer(token["ada"])...)
	h.write("kalpa.yaml", "servres: {}\n")
	h.reload()
	h.works(session, bearer(token["ada"])...)

	// A server that is gone refuses its sessions, and has them when it is back.
	h.write("kalpa.yaml", "auth: {tokens_file: tokens}\nservers: {two: {plugin: demo}}\n")
	h.reload()
	if a := h.post(increment, append(bearer(token["ada"]), "Mcp-Session-Id", session)...); a.status != http.StatusServiceUnavailable {
		t.Errorf("a server that is gone: %+v", a)
	}
	h.write("kalpa.yaml", "auth: {tokens_file: tokens}\nservers: {one: {plugin: demo}}\n")
	h.write("tokens", ada)
	h.reload()
	h.works(session, bearer(token["ada"])...)
	if a := h.post(initialize, bearer(token["bob"])...); a.status != http.StatusUnauthorized {
		t.Errorf("bob, whose token was taken back: %d", a.status)
	}
}
