//go:build unix

package pebble_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// The tests below run this test binary again as another process; what it does
// then is named by the environment.
const (
	roleVariable = "KALPA_TEST_ROLE"
	dirVariable  = "KALPA_TEST_DIR"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(dirVariable)
	switch role := os.Getenv(roleVariable); role {
	case "":
		goleak.VerifyTestMain(m, engines...)
	case "write":
		d, err := storage.ParseDurability(os.Getenv("KALPA_TEST_DURABILITY"))
		exitOn(err)
		exitOn(writeForEver(dir, d))
	case "hold":
		_, err := pebble.Open(pebble.Options{Dir: dir, Logger: silent})
		exitOn(err)
		fmt.Println("open")
		_, err = io.Copy(io.Discard, os.Stdin) // until the parent closes it
		exitOn(err)
	case "fail":
		exitOn(failForEver(dir))
	default:
		exitOn(fmt.Errorf("role %q", role))
	}
	os.Exit(0)
}

// engines are the goroutines that the engine leaves behind where it can't be closed: the
// disk of its log failed, or the process that was simulated is gone.
var engines = func() (options []goleak.Option) {
	for _, f := range []string{
		".openCleanupManager.func1",
		"/internal/genericcache.(*shard[...]).releaseLoop",
		"/record.NewLogWriter.func2",
		"/vfs.(*diskHealthCheckingFile).startTicker.func1",
		"/vfs.(*diskHealthCheckingFS).startTickerLocked.func1",
	} {
		options = append(options, goleak.IgnoreAnyFunction("github.com/cockroachdb/pebble/v2"+f))
	}
	// What the engine would end as it is closed.
	return append(options, goleak.IgnoreAnyFunction("github.com/kalpahost/kalpa/storage/pebble.(*compactions).run"))
}()

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func child(t *testing.T, role, dir string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir), env...)
	return cmd
}

// inFlight is how many turns of an object a child submits before it waits.
const inFlight = 4

// writeForEver commits turns of some objects and prints each one that is
// acknowledged, until it is killed.
func writeForEver(dir string, d storage.Durability) error {
	s, err := pebble.Open(pebble.Options{Dir: dir, Durability: d, Logger: silent})
	if err != nil {
		return err
	}
	h := newHistory(8)
	for _, c := range h.objects {
		epoch, err := storage.Claim(context.Background(), s, c.id)
		if err != nil {
			return err
		}
		n := int64(0)
		for e, err := range s.List(context.Background(), c.id, storage.Range{Prefix: "log/"}) {
			if err != nil {
				return err
			}
			if _, err := fmt.Sscanf(e.Key, "log/%08d", &n); err != nil {
				return err
			}
		}
		go func() {
			slots := make(chan struct{}, inFlight)
			for n++; ; n++ {
				slots <- struct{}{}
				turn := n
				s.Submit(c.batch(epoch, turn, 100), func(err error) {
					exitOn(err)
					fmt.Printf("%s %d %d\n", c.id.Name, turn, epoch)
					<-slots
				})
			}
		}()
	}
	select {}
}

// I3: what a process acknowledged is there after kill -9, whatever the durability.
func TestKillTakesNothingThatWasAcknowledged(t *testing.T) {
	for _, d := range []storage.Durability{storage.Sync, storage.Relaxed} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir() + "/data"
			h := newHistory(8)
			for kill := range 3 {
				acknowledged := writeAndKill(t, h, dir, d)
				if acknowledged == 0 {
					t.Fatal("the child acknowledged nothing")
				}
				s := mustOpen(t, pebble.Options{Dir: dir, Durability: d})
				recovered := h.check(t, s, h.now(), true)
				// The next child goes on from here, and may be killed before it has told of
				// any turn of an object's.
				h.resume(t, s)
				for _, c := range h.objects {
					c.submitted.Add(inFlight)
				}
				t.Logf("kill %d: %d turns acknowledged, %d in all recovered", kill, acknowledged, recovered)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// writeAndKill reads what a child acknowledges until some time after its first
// line, kills it, and reads what is left in the pipe.
func writeAndKill(t *testing.T, h *history, dir string, d storage.Durability) (lines int) {
	t.Helper()
	cmd := child(t, "write", dir, "KALPA_TEST_DURABILITY="+d.String())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A child that never prints anything is killed too.
	timer := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	for scan := bufio.NewScanner(out); scan.Scan(); lines++ {
		if lines == 0 {
			timer.Reset(150 * time.Millisecond)
		}
		var object int
		var turn int64
		var epoch uint64
		if n, _ := fmt.Sscanf(scan.Text(), "%d %d %d", &object, &turn, &epoch); n != 3 {
			continue // torn by the kill
		}
		c := h.objects[object]
		c.acknowledged.Store(turn)
		c.submitted.Store(turn + inFlight)
		h.epoch.Store(max(h.epoch.Load(), epoch))
	}
	err = cmd.Wait()
	if state := cmd.ProcessState.String(); state != "signal: killed" {
		t.Fatalf("the child ended on its own: %v, %s", err, stderr.String())
	}
	return lines
}

func TestASecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir() + "/data"
	cmd := child(t, "hold", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	before := snapshot(t, dir)
	_, err = pebble.Open(pebble.Options{Dir: dir, Logger: silent})
	wantRefusal(t, err, storage.ErrLocked, dir, fmt.Sprintf("another kalpa, pid %d", cmd.Process.Pid))
	same(t, before, snapshot(t, dir))
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, pebble.Options{Dir: dir}) // the lock ended with the child
	_, err = pebble.Open(pebble.Options{Dir: dir, Logger: silent})
	wantRefusal(t, err, storage.ErrLocked, dir, fmt.Sprintf("pid %d", os.Getpid()))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = mustOpen(t, pebble.Options{Dir: dir})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Without a Fatal of its own, a store ends the process when its disk fails.
func TestAFailedDiskEndsTheProcess(t *testing.T) {
	cmd := child(t, "fail", t.TempDir()+"/data")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "ending the process") || !strings.Contains(string(out), "injected") {
		t.Errorf("the child ended with %v and said:\n%s", err, out)
	}
	if strings.Contains(string(out), "acknowledged after") {
		t.Errorf("a batch was acknowledged that was not synced:\n%s", out)
	}
}
