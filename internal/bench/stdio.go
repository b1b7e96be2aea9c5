package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os/exec"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/stdio"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// windows are how many requests are under way at a time.
var windows = []int{1, 32}

// hands are who writes the requests: the goroutine that reads the answers, which is the
// least that can be done, or another one, as in a session, whose turns are between the two.
var hands = []struct {
	name  string
	apart bool
}{{"one goroutine", false}, {"two goroutines", true}}

// The ways to a child. Its pipes come twice: a system that shares its processors out
// between sessions treats a child that has one of its own, as the runtime's have, otherwise
// than one in the session of who drives it.
const (
	bySamePipes = iota
	byPipes
	byRuntime
)

// measureStdio compares the runtime that runs a server as a child process with the same
// child, driven over its pipes by nothing but a write and a read. The runtime alone is
// measured, in this process: no HTTP, and nothing durable.
func (b *bench) measureStdio(ctx context.Context) error {
	echo, err := b.build(ctx, "./internal/bench/echo", "")
	if err != nil {
		return err
	}
	rows := [][]string{{
		"requests under way", "written and read by", "its pipes, in the driver's session, calls/s", "its pipes, calls/s", "the stdio runtime, calls/s",
		"the runtime is", "processor time of a call, its pipes, µs", "the stdio runtime, µs",
	}}
	worst := spread{median: math.Inf(1)}
	for _, window := range windows {
		for _, hand := range hands {
			var rates, times [3][]float64
			for round := range b.rounds {
				for way := range rates {
					if err := ctx.Err(); err != nil {
						return err
					}
					rate, took, err := b.talk(ctx, way, echo.program, &talk{window: window, apart: hand.apart})
					if err != nil {
						return err
					}
					rates[way], times[way] = append(rates[way], rate), append(times[way], took)
				}
				b.say("stdio, round %d, %d under way, %s: %.0f/s and %.0f/s over pipes, %.0f/s in the runtime", round+1, window, hand.name,
					rates[bySamePipes][round], rates[byPipes][round], rates[byRuntime][round])
			}
			ratio := summarize(ratios(rates[byRuntime], rates[byPipes]))
			if ratio.median < worst.median {
				worst = ratio
			}
			row := []string{fmt.Sprint(window), hand.name}
			for _, r := range rates {
				row = append(row, summarize(r).String())
			}
			rows = append(rows, append(row, ratio.String()+" times as fast", summarize(times[byPipes]).String(), summarize(times[byRuntime]).String()))
		}
	}
	return errors.Join(b.publish("stdio", "stdio", false, table(rows)), b.found(targetStdio, worst))
}

// talk measures one way: calls a second, and the processor time that each takes in this
// process, in microseconds.
func (b *bench) talk(ctx context.Context, way int, program string, t *talk) (rate, took float64, err error) {
	t.news = make(chan error, 2*t.window+2)
	switch way {
	case byRuntime:
		err = t.overRuntime(ctx, program)
	default:
		err = t.overPipes(program, way == byPipes)
	}
	if err != nil {
		return 0, 0, err
	}
	_, _, err = t.run(b.warmup)
	if err == nil {
		rate, took, err = t.run(b.d)
	}
	return rate, took, errors.Join(err, t.close())
}

// talk has so many requests under way at a time with a child, and checks the answers.
// They come in order: the child is one thread.
type talk struct {
	write  func(wire.Message) error
	close  func() error
	window int
	apart  bool

	end            time.Time
	sent, answered int
	news           chan error // apart: of each answer; else: that the last one has come
}

func (t *talk) run(d time.Duration) (rate, took float64, err error) {
	before, err := burnt()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	t.end, t.sent, t.answered = begin.Add(d), 0, 0
	if t.apart {
		for read := 0; ; read++ {
			if err := t.ask(read); err != nil {
				return 0, 0, err
			}
			if read == t.sent {
				break
			}
			if err := <-t.news; err != nil {
				return 0, 0, err
			}
		}
	} else {
		if err := t.askOnce(); err != nil {
			return 0, 0, err
		}
		if err := <-t.news; err != nil { // who reads the answer asks on
			return 0, 0, err
		}
	}
	wall := time.Since(begin)
	after, err := burnt()
	n := float64(t.sent)
	return n / wall.Seconds(), float64((after - before).Microseconds()) / n, err
}

// ask fills the window, of which so many have been answered.
func (t *talk) ask(answered int) error {
	for t.sent-answered < t.window && time.Now().Before(t.end) {
		if err := t.askOnce(); err != nil {
			return err
		}
	}
	return nil
}

func (t *talk) askOnce() error {
	text := strconv.Itoa(t.sent)
	t.sent++
	return t.write(wire.NewRequest(wire.ID(text), "tools/call", []byte(`{"name":"echo","arguments":{"text":"`+text+`"}}`)))
}

// heard takes an answer, or why no more come, on the goroutine that has read it.
func (t *talk) heard(line []byte, err error) {
	if err == nil {
		err = t.check(line)
	}
	if err == nil && !t.apart {
		if err = t.ask(t.answered); err == nil && t.sent > t.answered {
			return
		}
	}
	t.news <- err
}

func (t *talk) check(line []byte) error {
	parts := gjson.GetManyBytes(line, "id", "result.content.0.text")
	if want := strconv.Itoa(t.answered); parts[0].Raw != want || parts[1].Str != want {
		return fmt.Errorf("%.200s is not the answer to %s", line, want)
	}
	t.answered++
	return nil
}

func (t *talk) overPipes(program string, ownSession bool) error {
	cmd := exec.Command(program) //nolint:noctx // it ends with its stdin
	if ownSession {
		cmd.SysProcAttr = newSession()
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var line []byte
	t.write = func(m wire.Message) error {
		line = append(append(line[:0], m.Bytes()...), '\n')
		_, err := in.Write(line)
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewReaderSize(out, 64<<10)
		for {
			line, err := lines.ReadSlice('\n')
			t.heard(bytes.TrimSpace(line), err)
			if err != nil {
				return
			}
		}
	}()
	t.close = func() error {
		err := in.Close()
		<-read
		return errors.Join(err, cmd.Wait())
	}
	return nil
}

func (t *talk) overRuntime(ctx context.Context, program string) error {
	plugin := stdio.New(stdio.Config{Command: program, Logger: slog.New(slog.DiscardHandler)})
	r, err := plugin.Build(ctx, sink{t})
	if err != nil {
		return errors.Join(err, plugin.Close(ctx))
	}
	t.write = func(m wire.Message) error { return r.Deliver(ctx, m) }
	t.close = func() error { return errors.Join(r.Close(ctx), plugin.Close(ctx)) }
	return nil
}

// sink is the session that a runtime works for: it hands on what it is sent.
type sink struct{ *talk }

func (s sink) ID() string                   { return "bench" }
func (s sink) Server() string               { return "echo" }
func (s sink) Principal() mcp.Principal     { return mcp.Principal{} }
func (s sink) Epoch() uint64                { return 1 }
func (s sink) Handshake() mcp.Handshake     { return mcp.Handshake{} }
func (s sink) State() mcp.State             { return nil }
func (s sink) Logger() *slog.Logger         { return slog.New(slog.DiscardHandler) }
func (s sink) Exited(err error)             { s.heard(nil, err) }
func (s sink) Charge(int64) (func(), error) { return func() {}, nil }
func (s sink) Send(_ context.Context, m wire.Message, _ wire.ID) error {
	s.heard(m.Bytes(), nil)
	return nil
}
