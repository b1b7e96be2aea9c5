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

// part is what can be measured by itself, as -only names it.
type part struct {
	name    string
	measure func(*bench, context.Context) error
}

// parts are in the order of the page.
var parts = []part{
	{"calls", (*bench).measureCalls},
	{"ledger", (*bench).measureLedger},
	{"opening", (*bench).measureOpening},
	{"objects", (*bench).measureObjects},
	{"inside", (*bench).measureInside},
	{"memory", (*bench).measureMemory},
	{"start", (*bench).measureStart},
	{"wake", (*bench).measureWake},
	{"replay", (*bench).measureReplay},
	{"stdio", (*bench).measureStdio},
	{"curves", (*bench).measureCurves},
	{"hurts", (*bench).measureHurts},
	{"lasting", (*bench).measureLasting},
}

func names() (all []string) {
	for _, p := range parts {
		all = append(all, p.name)
	}
	return all
}

// bench is one run.
type bench struct {
	peers, out, work   string
	only               string
	rounds             int
	sessions, many     int
	warmup, d, lasting time.Duration
	resident, agents   int
	objects, foreign   int
	stored, passed     int
	idle, most         int
	command            func(part string, peers bool) string
	commit, loadBefore string

	programs string // a folder for what is built
	kalpa    kalpa
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
	flag.StringVar(&b.only, "only", "", "measure these parts, with commas between: "+strings.Join(names(), ", "))
	flag.IntVar(&b.rounds, "rounds", 5, "how many times each server has its turn")
	flag.IntVar(&b.sessions, "sessions", 32, "how many sessions call at the same time")
	flag.IntVar(&b.many, "many", 1000, "the same, where it is to be many")
	flag.DurationVar(&b.warmup, "warmup", time.Second, "how long they call before a turn is measured")
	flag.DurationVar(&b.d, "d", 4*time.Second, "how long a turn is measured")
	flag.IntVar(&b.resident, "resident", 2000, "how many sessions the memory is divided by")
	flag.IntVar(&b.agents, "agents", 200, "the same for McpAgent, whose sessions take longer to open")
	flag.IntVar(&b.objects, "objects", atRestObjects, "how many objects the memory is divided by; the target wants 100,000")
	flag.IntVar(&b.foreign, "foreign", 500, "the same for the objects of the peer")
	flag.IntVar(&b.stored, "stored", million, "how many sessions are in the store that is started on; the targets want a million")
	flag.IntVar(&b.passed, "passed", 100_000, "how many of them are called, and evicted again, before memory is read")
	flag.IntVar(&b.idle, "idle", 500, "how many idle sessions are woken")
	flag.IntVar(&b.most, "most", 100_000, "how many sessions the curves go up to")
	flag.DurationVar(&b.lasting, "lasting", 2*time.Minute, "how long clients come and go; the target wants 1h")
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
		if part != "" && !slices.Contains(names(), part) {
			return fmt.Errorf("-only: there is no part %q", part)
		}
	}
	if b.rounds < 1 || b.sessions < 1 || b.many < 1 || b.resident < 1 || b.agents < 1 || b.objects < 1 || b.foreign < 1 || b.d <= 0 || b.lasting <= 0 {
		return errors.New("-rounds, -sessions, -many, -resident, -agents, -objects, -foreign, -d and -lasting are 1 at least")
	}
	if least := woken*(b.rounds+1) + 1; b.stored < least {
		return fmt.Errorf("-stored: with %d rounds it is %d at least", b.rounds, least)
	}
	return nil
}

func (b *bench) wants(part string) bool {
	return b.only == "" || slices.Contains(strings.Split(b.only, ","), part)
}

func (b *bench) run(ctx context.Context) (err error) {
	b.loadBefore = loadAverage()
	if b.work, err = filepath.Abs(b.work); err != nil {
		return err
	}
	if err := os.RemoveAll(b.work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()
	if b.programs, err = b.folder("programs"); err != nil {
		return err
	}
	if b.commit, err = commit(ctx); err != nil {
		return err
	}
	if b.kalpa, err = b.build(ctx, "./cmd/kalpa", ""); err != nil {
		return err
	}
	on, err := machine(b.programs)
	if err != nil {
		return err
	}
	var against []string
	for _, p := range allPeers {
		against = append(against, p.describe(b.peers))
	}
	if err := b.write("setting", on+"\n"+strings.Join(against, "\n")); err != nil {
		return err
	}
	for _, p := range parts {
		if !b.wants(p.name) {
			continue
		}
		begin := time.Now()
		if err := p.measure(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		b.say("%s: done in %v", p.name, time.Since(begin).Round(time.Second))
	}
	return nil
}

// measureCalls compares calls of tools.
func (b *bench) measureCalls(ctx context.Context) error {
	hosts := func() []*server {
		return []*server{b.kalpa.server("kalpa"), b.kalpa.server("kalpa, durability relaxed", "--durability", "relaxed")}
	}
	const sdk, agent = 2, 3
	j := job{tool: "add", sessions: b.sessions, warmup: b.warmup, d: b.d}
	all, text, err := b.compare(ctx, "add", "calls/s", append(hosts(), peerServers(b.peers)...), j.turn)
	if err != nil {
		return err
	}
	if err := b.publish("add", "calls", true, text); err != nil {
		return err
	}
	if err := errors.Join(b.found(targetAdd, all.faster(agent)), b.found(targetSDK, all.faster(sdk))); err != nil {
		return err
	}
	many := j
	many.sessions = b.many
	if all, text, err = b.compare(ctx, "add-many", "calls/s", append(hosts(), peerServers(b.peers)[0]), many.turn); err != nil {
		return err
	}
	if err := errors.Join(b.publish("many", "calls", true, text), b.found(targetMany, all.faster(sdk), all.later(sdk))); err != nil {
		return err
	}
	j.tool = "incr"
	// The Go SDK's peer has one counter, in memory, for all sessions.
	if all, text, err = b.compare(ctx, "incr", "calls/s", append(hosts(), peerServers(b.peers)[1]), j.turn); err != nil {
		return err
	}
	return errors.Join(b.publish("incr", "calls", true, text), b.found(targetIncr, all.faster(2)))
}

// measureLedger compares a host with the same one without the ledger and the epochs.
func (b *bench) measureLedger(ctx context.Context) error {
	with, err := b.build(ctx, "./cmd/kalpa", "seams")
	if err != nil {
		return err
	}
	without := with
	without.seams = "no-ledger,no-epochs"
	var tables []string
	for _, durability := range []string{"sync", "relaxed"} {
		j := job{tool: "add", sessions: b.sessions, warmup: b.warmup, d: b.d}
		_, rows, err := b.compare(ctx, "ledger", "calls/s", []*server{
			with.server("kalpa, durability "+durability, "--durability", durability),
			without.server("the same without the ledger and epochs", "--durability", durability),
		}, j.turn)
		if err != nil {
			return err
		}
		tables = append(tables, rows)
	}
	return b.publish("ledger", "ledger", false, strings.Join(tables, "\n"))
}

// measureOpening compares how fast sessions are opened.
func (b *bench) measureOpening(ctx context.Context) error {
	l := &load{warmup: b.warmup, d: b.d}
	for range openers {
		l.talkers = append(l.talkers, &opener{})
	}
	servers := append([]*server{b.kalpa.server("kalpa", "--max-sessions", "0")}, peerServers(b.peers)...)
	all, text, err := b.compare(ctx, "opening", "opened/s", servers, func(s *server, _ int) (sample, error) { return l.run(s.endpoint) })
	if err != nil {
		return err
	}
	return errors.Join(b.publish("opening", "opening", true, text), b.found(targetOpen, all.faster(1)))
}

// publish puts what a part has measured into a section of the page, and says how it came
// about.
func (b *bench) publish(section, part string, peers bool, text string) error {
	rounds := fmt.Sprintf("%d rounds", b.rounds)
	if b.rounds == 1 {
		rounds = "1 round"
	}
	return b.write(section, fmt.Sprintf("`%s`, %s, on %s at commit %s; the load average before was %s.\n\n%s",
		b.command(part, peers), rounds, time.Now().UTC().Format(time.DateOnly), b.commit, b.loadBefore, text))
}

// write puts a section where it belongs.
func (b *bench) write(section, text string) error {
	if b.out == "-" {
		fmt.Printf("%s\n%s\n\n", strings.ToUpper(section), text)
		return nil
	}
	page, err := os.ReadFile(b.out)
	if err != nil {
		return err
	}
	now, err := replace(string(page), section, text)
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
