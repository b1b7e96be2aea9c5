package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// server is a row of a table: something that can be started, and what runs of it.
type server struct {
	name string
	// why it can't be measured; nil if it can.
	skipped error
	launch  func(folder string) (*process, string, error) // its files go in there
	ready   func(endpoint string) error                   // nil: it answers an initialize

	*process // nil: not running
	endpoint string
	folder   string
}

// start runs the server and waits until it is ready.
func (s *server) start(ctx context.Context, folder string, limit time.Duration) error {
	p, endpoint, err := s.launch(folder)
	if err != nil {
		return err
	}
	if err := answers(ctx, p, endpoint, s.ready, limit); err != nil {
		p.stop()
		return err
	}
	s.process, s.endpoint, s.folder = p, endpoint, folder
	return nil
}

func (s *server) end() {
	if s.process != nil {
		s.stop()
		s.process = nil
	}
}

// answers waits until a server is ready.
func answers(ctx context.Context, p *process, endpoint string, ready func(string) error, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if ready == nil {
		ready = initializes
	}
	for {
		err := ready(endpoint)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("it ended: %s", p.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("it did not answer within %v (%w); its last line: %s", limit, err, p.lastWords())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// initializes: an MCP server takes a session.
func initializes(endpoint string) error {
	c, err := open(endpoint)
	if err == nil {
		c.close()
	}
	return err
}

// kalpa is the program that is measured.
type kalpa struct {
	program string
	seams   string // what is taken out of it, where it is built for that
	admin   bool   // it can be asked what it has in memory
}

// watched can be asked what it has in memory. To be asked costs something, so this is for
// what is not compared.
func (k kalpa) watched() kalpa {
	k.admin = true
	return k
}

// build compiles a program as releases are built, with build tags if any.
func (b *bench) build(ctx context.Context, program, tags string) (kalpa, error) {
	k := kalpa{program: filepath.Join(b.programs, filepath.Base(program)+tags)}
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-o", k.program, program) //nolint:gosec // tags are ours
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return k, fmt.Errorf("building %s: %w\n%s", program, err, out)
	}
	return k, nil
}

func (k kalpa) server(name string, flags ...string) *server {
	return &server{name: name, launch: func(folder string) (*process, string, error) {
		p, endpoint, _, err := k.serve(folder, flags...)
		return p, endpoint, err
	}}
}

// listening begins each line that tells an address, as package cmd promises.
const listening = "kalpa is listening on "

// serve starts a host on a folder, and waits until it says that it listens: after
// what time it did so is told.
func (k kalpa) serve(folder string, flags ...string) (p *process, endpoint string, took time.Duration, err error) {
	args := []string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(folder, "data"), "--log-level", "warn"}
	if k.admin {
		args = append(args, "--admin", adminAddress(folder))
	}
	cmd := exec.Command(k.program, append(args, flags...)...) //nolint:noctx // it is ended by stop
	if k.seams != "" {
		cmd.Env = append(os.Environ(), "KALPA_SEAMS="+k.seams)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, "", 0, err
	}
	cmd.Stdout = w
	begin := time.Now()
	p, err = launch(cmd, filepath.Join(folder, "log"))
	_ = w.Close() // the child has its own
	if err != nil {
		return nil, "", 0, errors.Join(err, r.Close())
	}
	in := bufio.NewReader(r)
	line, err := in.ReadString('\n')
	took = time.Since(begin)
	endpoint, found := strings.CutPrefix(strings.TrimSpace(line), listening)
	if err != nil || !found {
		p.stop()
		return nil, "", 0, errors.Join(fmt.Errorf("kalpa does not start: %s", p.lastWords()), r.Close())
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // the rest is for people
		_ = r.Close()
	}()
	return p, endpoint, took, nil
}

// peer is something that people would use instead.
type peer struct {
	folder, path string
	name, what   string
}

// durableObjects is what objects are compared with.
var durableObjects = peer{"workerd-objects", "/", workerdObjects, "Cloudflare's Durable Objects on its open-source runtime, on disk"}

var peers = []peer{
	{"gosdk", "/", sdkSessions, "the official Go SDK's StreamableHTTPHandler with its event store, all of it in memory: nothing is durable"},
	{"mcpagent", "/mcp", workerdSessions, "Cloudflare's McpAgent on its open-source runtime: a Durable Object on disk for each session"},
}

// allPeers are those of sessions, and that of objects.
var allPeers = append(slices.Clone(peers), durableObjects)

// peerServers are the peers of a folder.
func peerServers(folder string) []*server {
	var servers []*server
	for _, p := range peers {
		servers = append(servers, p.server(folder))
	}
	return servers
}

func (p peer) server(folder string) *server {
	script, err := p.script(folder)
	s := &server{name: p.name, skipped: err}
	s.launch = func(own string) (*process, string, error) {
		port, err := freePort()
		if err != nil {
			return nil, "", err
		}
		cmd := exec.Command("bash", script) //nolint:noctx // it is ended by stop
		cmd.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port), "DATA="+filepath.Join(own, "data"))
		started, err := launch(cmd, filepath.Join(own, "log"))
		return started, fmt.Sprintf("http://127.0.0.1:%d%s", port, p.path), err
	}
	return s
}

// script is what starts the peer.
func (p peer) script(folder string) (string, error) {
	if folder == "" {
		return "", errors.New("no folder of peers was named")
	}
	script, err := filepath.Abs(filepath.Join(folder, p.folder, "run"))
	if err == nil {
		_, err = os.Stat(script)
	}
	if err != nil {
		return "", fmt.Errorf("the folder of peers has no %s/run", p.folder)
	}
	return script, nil
}

// describe is a peer as a reader should know it.
func (p peer) describe(folder string) string {
	s := fmt.Sprintf("- **%s**: %s. Started by `%s/run`", p.name, p.what, p.folder)
	if script, err := p.script(folder); err != nil {
		s += "; not measured: " + err.Error()
	} else if text, err := os.ReadFile(script); err == nil {
		s += ", which installs " + strings.Join(versions(string(text)), ", ")
	}
	return s + "."
}

var pinned = regexp.MustCompile(`[\w./@-]*[\w]@v?\d[\w.-]*`)

// versions are the packages that a script pins, NAME@VERSION.
func versions(script string) []string {
	found := pinned.FindAllString(script, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of this machine
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
