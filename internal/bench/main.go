package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// parts are those of the page, as -only names them.
var parts = []string{"calls", "ledger", "memory", "start", "objects"}

// bench is one run.
type bench struct {
	peers, out, work   string
	only               string
	rounds, sessions   int
	warmup, d, settle  time.Duration
	resident, agents   int
	objects, foreign   int
	stored             int
	command            func(part string, peers bool) string
	commit, loadBefore string
}

func main() {
	// Servers end with the thread that has started them.
	runtime.LockOSThread()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var b bench
	flag.StringVar(&b.peers, "peers", "", "the folder of peers; without it only kalpa is measured")
	flag.StringVar(&b.out, "out", "docs/benchmarks.md", "the page whose parts are rewritten; - prints them instead")
	flag.StringVar(&b.work, "work", "bin/bench", "a folder for data, on the disk that is to be measured; it is emptied")
	flag.StringVar(&b.only, "only", "", "measure these parts, with commas between: "+strings.Join(parts, ", "))
	flag.IntVar(&b.rounds, "rounds", 5, "how many times each server has its turn")
	flag.IntVar(&b.sessions, "sessions", 32, "how many sessions call at the same time")
	flag.DurationVar(&b.warmup, "warmup", time.Second, "how long they call before a turn is measured")
	flag.DurationVar(&b.d, "d", 5*time.Second, "how long a turn is measured")
	flag.IntVar(&b.resident, "resident", 2000, "how many sessions the memory is divided by")
	flag.IntVar(&b.agents, "agents", 200, "the same for McpAgent, whose sessions take longer to open")
	flag.IntVar(&b.objects, "objects", 100_000, "how many objects the memory is divided by")
	flag.IntVar(&b.foreign, "foreign", 500, "the same for the objects of the peer")
	flag.IntVar(&b.stored, "stored", 100_000, "how many sessions are in the store that is started on")
	flag.DurationVar(&b.settle, "settle", 80*time.Second, "how long the session that those are copies of is left alone first: delivered events are kept for a minute")
	flag.Parse()
	if err := b.check(); err != nil {
		return err
	}
	var given [][2]string
	flag.Visit(func(f *flag.Flag) {
		if !slices.Contains([]string{"peers", "out", "work", "only"}, f.Name) {
			given = append(given, [2]string{f.Name, f.Value.String()})
		}
	})
	b.command = func(part string, peers bool) string { return command(part, given, peers) }
	return b.run(ctx)
}

func (b *bench) check() error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	for part := range strings.SplitSeq(b.only, ",") {
		if part != "" && !slices.Contains(parts, part) {
			return fmt.Errorf("-only: there is no part %q", part)
		}
	}
	if b.rounds < 1 || b.sessions < 1 || b.resident < 1 || b.agents < 1 || b.objects < 1 || b.foreign < 1 || b.d <= 0 {
		return errors.New("-rounds, -sessions, -resident, -agents, -objects, -foreign and -d are 1 at least")
	}
	if least := woken * (b.rounds + 1); b.stored < least {
		return fmt.Errorf("-stored: with %d rounds it is %d at least", b.rounds, least)
	}
	return nil
}

func (b *bench) wants(part string) bool {
	return b.only == "" || slices.Contains(strings.Split(b.only, ","), part)
}

func (b *bench) run(ctx context.Context) (err error) {
	b.loadBefore = load()
	if b.work, err = filepath.Abs(b.work); err != nil {
		return err
	}
	if err := os.RemoveAll(b.work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()
	folder, err := b.folder("program")
	if err != nil {
		return err
	}
	if b.commit, err = commit(ctx); err != nil {
		return err
	}
	k, err := build(ctx, folder, "./cmd/kalpa", "")
	if err != nil {
		return err
	}
	on, err := machine(folder)
	if err != nil {
		return err
	}
	var against []string
	for _, p := range append(slices.Clone(peers), durableObjects) {
		against = append(against, p.describe(b.peers))
	}
	if err := b.write("setting", on+"\n"+strings.Join(against, "\n")); err != nil {
		return err
	}
	if b.wants("calls") {
		if err := b.measureCalls(ctx, k); err != nil {
			return err
		}
	}
	if b.wants("ledger") {
		if err := b.measureLedger(ctx, folder); err != nil {
			return err
		}
	}
	if b.wants("memory") {
		others := peerServers(b.peers)
		text, err := b.memory(ctx, []population{
			{k.server("kalpa"), b.resident}, {others[0], b.resident}, {others[1], b.agents},
		})
		if err != nil {
			return err
		}
		if err := b.write("memory", b.measured("memory", true)+text); err != nil {
			return err
		}
	}
	if b.wants("start") {
		text, err := b.start(ctx, k)
		if err != nil {
			return err
		}
		if err := b.write("start", b.measured("start", false)+text); err != nil {
			return err
		}
	}
	if b.wants("objects") {
		return b.measureObjects(ctx, folder)
	}
	return nil
}

func (b *bench) measureCalls(ctx context.Context, k kalpa) error {
	hosts := func() []*server {
		return []*server{k.server("kalpa"), k.server("kalpa, durability relaxed", "--durability", "relaxed")}
	}
	j := job{tool: "add", sessions: b.sessions, warmup: b.warmup, d: b.d}
	text, err := b.calls(ctx, j.tool, append(hosts(), peerServers(b.peers)...), j.turn)
	if err != nil {
		return err
	}
	if err := b.write("add", b.measured("calls", true)+text); err != nil {
		return err
	}
	j.tool = "incr"
	// The Go SDK's peer has one counter, in memory, for all sessions.
	if text, err = b.calls(ctx, j.tool, append(hosts(), peerServers(b.peers)[1]), j.turn); err != nil {
		return err
	}
	return b.write("incr", b.measured("calls", true)+text)
}

// measureLedger compares a host with the same one without the ledger and the epochs.
func (b *bench) measureLedger(ctx context.Context, folder string) error {
	with, err := build(ctx, folder, "./cmd/kalpa", "seams")
	if err != nil {
		return err
	}
	without := with
	without.seams = "no-ledger,no-epochs"
	var tables []string
	for _, durability := range []string{"sync", "relaxed"} {
		j := job{tool: "add", sessions: b.sessions, warmup: b.warmup, d: b.d}
		rows, err := b.calls(ctx, j.tool, []*server{
			with.server("kalpa, durability "+durability, "--durability", durability),
			without.server("the same without the ledger and epochs", "--durability", durability),
		}, j.turn)
		if err != nil {
			return err
		}
		tables = append(tables, rows)
	}
	return b.write("ledger", b.measured("ledger", false)+strings.Join(tables, "\n"))
}

// measured says how a part came about.
func (b *bench) measured(part string, peers bool) string {
	return fmt.Sprintf("`%s`, %d rounds, on %s at commit %s; the load average before was %s.\n\n",
		b.command(part, peers), b.rounds, time.Now().UTC().Format(time.DateOnly), b.commit, b.loadBefore)
}

// write puts a part where it belongs.
func (b *bench) write(part, text string) error {
	if b.out == "-" {
		fmt.Printf("%s\n%s\n\n", strings.ToUpper(part), text)
		return nil
	}
	page, err := os.ReadFile(b.out)
	if err != nil {
		return err
	}
	now, err := replace(string(page), part, text)
	if err != nil {
		return fmt.Errorf("%s: %w", b.out, err)
	}
	return os.WriteFile(b.out, []byte(now), 0o644) //nolint:gosec // a page that everybody may read
}

// folder makes a folder for data.
func (b *bench) folder(name string) (string, error) {
	path := filepath.Join(b.work, name)
	return path, os.MkdirAll(path, 0o755)
}

// say tells whoever waits what is going on.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// commit names the state of the code.
func commit(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty=, with changes", "--exclude=*").Output()
	if err != nil {
		return "", fmt.Errorf("git describe: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
