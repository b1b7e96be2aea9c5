package oracle

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

//go:embed worker.mjs
var worker string

// ErrNotInstalled: the real runtime is not at hand.
var ErrNotInstalled = errors.New("workerd is not installed; make oracle-deps installs it")

// FindWorkerd finds the program that npm has installed below a folder.
func FindWorkerd(dir string) (string, error) {
	// Not the script of the same name: what it starts survives when it is killed.
	found, err := filepath.Glob(filepath.Join(dir, "node_modules", "@cloudflare", "workerd-*", "bin", "workerd*"))
	if err != nil || len(found) == 0 {
		return "", errors.Join(ErrNotInstalled, err)
	}
	return filepath.Abs(found[0])
}

// Workerd is the real runtime, in a process of its own.
type Workerd struct {
	Binary string
	// Dir is a folder for its state, which it may fill.
	Dir string

	driver  *http.Server
	at      string // where the driver listens
	listen  *os.File
	base    string
	client  *http.Client
	cmd     *exec.Cmd
	stderr  bytes.Buffer
	program *Program
	ids     map[string]string
	before  []TraceLine // of the processes that were killed
	calls   sync.WaitGroup
}

const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .main),
    (name = "disk", disk = (path = "%s", writable = true)),
    (name = "driver", external = (address = "%s", http = ())),
  ],
  sockets = [(name = "http", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.mjs")],
  compatibilityDate = "2026-10-01",
  durableObjectStorage = (%s),
  durableObjectNamespaces = [
    (className = "Main", uniqueKey = "main", enableSql = %t),
    (className = "Other", uniqueKey = "other", enableSql = %[4]t),
  ],
  bindings = [
    (name = "OBJ", durableObjectNamespace = "Main"),
    (name = "OTHER", durableObjectNamespace = "Other"),
    (name = "DRIVER", service = "driver"),
  ],
);
`

// Start serves World.
func (w *Workerd) Start(ctx context.Context, p *Program, points *Points) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/wait/{point}", func(rw http.ResponseWriter, r *http.Request) {
		if points.Wait(r.Context(), r.PathValue("point")) != nil {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	w.driver = &http.Server{Handler: mux, ReadHeaderTimeout: Patience}
	go w.driver.Serve(l) //nolint:errcheck // it ends with Close
	w.at = l.Addr().String()

	mine, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.base = mine.Addr().String()
	// The process inherits the socket, so that nothing can be sent too early.
	w.listen, err = mine.(*net.TCPListener).File()
	if err = errors.Join(err, mine.Close()); err != nil {
		return err
	}
	w.client = &http.Client{Transport: &http.Transport{}}
	w.program, w.ids = p, map[string]string{}
	return w.serve(ctx)
}

func (w *Workerd) serve(ctx context.Context) error {
	data := filepath.Join(w.Dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	storage := `localDisk = "disk"`
	if w.program.Backend == "kv" {
		storage = "inMemory = void"
	}
	conf := filepath.Join(w.Dir, "config.capnp")
	err := errors.Join(
		os.WriteFile(filepath.Join(w.Dir, "worker.mjs"), []byte(worker), 0o600),
		os.WriteFile(conf, fmt.Appendf(nil, config, data, w.at, storage, w.program.Backend == ""), 0o600),
	)
	if err != nil {
		return err
	}
	w.cmd = exec.Command(w.Binary, "serve", conf, "--socket-fd", "http=3") //nolint:noctx // it is ended by Stop
	w.cmd.ExtraFiles = []*os.File{w.listen}
	w.cmd.Stderr = &w.stderr
	if err := w.cmd.Start(); err != nil {
		return err
	}
	for _, o := range w.program.Objects {
		id, err := w.post(ctx, "/define", struct {
			Object
			ID string `json:"id,omitempty"`
		}{o, w.ids[o.Name]})
		if err != nil {
			return fmt.Errorf("%w\n%s", err, w.stderr.String())
		}
		w.ids[o.Name] = string(id)
	}
	return nil
}

func (w *Workerd) post(ctx context.Context, path string, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.base+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	res, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // it has been read
	out, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, res.Status, out)
	}
	return out, err
}

// Send serves World.
func (w *Workerd) Send(ctx context.Context, events []Event, outcome func(label, outcome string)) error {
	b, err := json.Marshal(events)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.base+"/events", bytes.NewReader(b))
	if err != nil {
		return err
	}
	res, err := w.client.Do(req)
	if err != nil {
		return err
	}
	w.calls.Go(func() {
		defer res.Body.Close() //nolint:errcheck // it has been read
		open := map[string]bool{}
		for _, e := range events {
			open[e.Label] = true
		}
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			var o struct{ Label, Outcome string }
			if json.Unmarshal(lines.Bytes(), &o) == nil {
				delete(open, o.Label)
				outcome(o.Label, o.Outcome)
			}
		}
		for label := range open { // the process is gone
			outcome(label, "connection lost")
		}
	})
	return nil
}

// Trace serves World.
func (w *Workerd) Trace(ctx context.Context) ([]TraceLine, error) {
	var now []TraceLine
	b, err := w.post(ctx, "/trace", nil)
	if err == nil {
		err = json.Unmarshal(b, &now)
	}
	return append(append([]TraceLine{}, w.before...), now...), err
}

// Pass serves World.
func (w *Workerd) Pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Nudge serves World.
func (w *Workerd) Nudge() {}

// Restart serves World.
func (w *Workerd) Restart(ctx context.Context) error {
	t, err := w.Trace(ctx)
	if err != nil {
		return err
	}
	w.before = t
	w.kill()
	return w.serve(ctx)
}

func (w *Workerd) kill() {
	w.cmd.Process.Kill() //nolint:errcheck // it may be gone
	w.cmd.Wait()         //nolint:errcheck // it was killed
	w.client.CloseIdleConnections()
	w.calls.Wait()
}

// Stop serves World.
func (w *Workerd) Stop() error {
	w.kill()
	w.client.CloseIdleConnections()
	return errors.Join(w.driver.Close(), w.listen.Close())
}
