package e2e

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite testdata")

// The happy path is byte for byte what it was before a session could be reset on
// purpose, or attached to another incarnation (I1): testdata/happy.txtar was recorded
// from a host that could do neither. Ids that are minted are numbered; nothing else
// is changed. KALPA_E2E_PROGRAM names another program to compare, or with -update to
// record.
func TestHappyPathIsByteForByteTheSame(t *testing.T) {
	t.Parallel()
	const file = "testdata/happy.txtar"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]*host{"plain": serve(t, hosting{path: os.Getenv("KALPA_E2E_PROGRAM")})}
	if !*update {
		h := serve(t, hosting{flags: withAdmin})
		h.arm(t, strike{Point: "before-flush", Tool: "another"}) // from here on each point is looked at
		hosts["provoked"] = h
	}
	for name, h := range hosts {
		got := happyPath(t, h, txtar.Parse(want))
		if bytes.Equal(got, want) {
			continue
		}
		if !*update {
			t.Errorf("%s:\n--- got\n%s--- want\n%s", name, got, want)
		} else if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// happyPath sends the requests of an archive in one session each, in order, and
// returns the archive with what came back. A request's name says the revision that
// its session speaks.
func happyPath(t *testing.T, h *host, a *txtar.Archive) []byte {
	t.Helper()
	sessions := map[string]string{}
	minted := &minted{numbers: map[string]int{}}
	out := &txtar.Archive{Comment: a.Comment}
	for _, f := range a.Files {
		name, isRequest := strings.CutPrefix(f.Name, "request ")
		if !isRequest {
			continue
		}
		version, _, _ := strings.Cut(name, " ")
		head, body, _ := strings.Cut(strings.TrimSuffix(string(f.Data), "\n"), "\n\n")
		var b strings.Builder
		for line := range strings.SplitSeq(strings.TrimSuffix(head, "\n"), "\n") {
			fmt.Fprintf(&b, "%s\r\n", line)
		}
		fmt.Fprintf(&b, "Host: %s\r\n", h.address())
		if id := sessions[version]; id != "" {
			fmt.Fprintf(&b, "Mcp-Session-Id: %s\r\nMCP-Protocol-Version: %s\r\n", id, version)
		}
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
		got := rawExchange(t, h, b.String())
		if m := sessionHeader.FindStringSubmatch(got); m != nil {
			sessions[version] = m[1]
		}
		out.Files = append(out.Files, f, txtar.File{Name: "response " + name, Data: []byte(minted.normal(got))})
	}
	return txtar.Format(out)
}

var (
	sessionHeader = regexp.MustCompile(`(?m)^Mcp-Session-Id: (\S+)$`)
	dateHeader    = regexp.MustCompile(`(?m)^Date: .*$`)
	// A body has a length or comes in chunks, as it was flushed.
	framing = regexp.MustCompile(`(?m)^(Content-Length: \d+|Transfer-Encoding: chunked)\n`)
	// A session's id is 33 characters, a stream's 13 and a letter; the epoch of an
	// event is the host's boot and a counter.
	mintedSession = regexp.MustCompile(`(?m)^Mcp-Session-Id: [a-z2-7]{33}$`)
	mintedEvent   = regexp.MustCompile(`(?m)^id: [pg][a-z2-7]{13}\.[0-9a-z]+\.`)
)

// minted numbers the ids that a host makes up, in the order in which they come.
type minted struct{ numbers map[string]int }

func (m *minted) normal(response string) string {
	response = dateHeader.ReplaceAllString(response, "Date: DATE")
	response = framing.ReplaceAllString(response, "")
	number := func(id string) string {
		if m.numbers[id] == 0 {
			m.numbers[id] = len(m.numbers) + 1
		}
		return strconv.Itoa(m.numbers[id])
	}
	response = mintedSession.ReplaceAllStringFunc(response, func(s string) string { return "Mcp-Session-Id: SESSION-" + number(s) })
	return mintedEvent.ReplaceAllStringFunc(response, func(s string) string {
		return "id: " + s[len("id: "):len("id: ")+1] + "STREAM-" + number(s) + ".EPOCH."
	})
}

// rawExchange sends the bytes of a request over a connection of their own, and
// returns those of the response: as they came, but for line ends and for chunks, which
// depend on what was flushed together.
func rawExchange(t *testing.T, h *host, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", h.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	in := bufio.NewReader(io.TeeReader(conn, &seen))
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatalf("%v after %q", err, seen.String())
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%v after %q", err, seen.String())
	}
	head, _, _ := strings.Cut(seen.String(), "\r\n\r\n")
	return strings.ReplaceAll(head, "\r\n", "\n") + "\n\n" + string(body)
}
