package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// measureStdio compares the runtime that runs a server as a child process with the same
// child, driven over its pipes by nothing but a write and a read. The runtime alone is
// measured, in this process: no HTTP, and nothing durable. The last row is all of a host.
func (b *bench) measureStdio(ctx context.Context) error {
	echo, err := b.build(ctx, "./internal/bench/echo", "")
	if err != nil {
		return err
	}
	ways := []struct {
		name string
		open func(context.Context, string) (pair, error)
	}{
		{"its pipes", overPipes}, {"the stdio runtime", overRuntime},
	}
	rows := [][]string{{"requests under way", "its pipes, calls/s", "the stdio runtime, calls/s", "the runtime is"}}
	worst := spread{median: 1e9}
	for _, window := range windows {
		rates := make([][]float64, len(ways))
		for round := range b.rounds {
			for i, way := range ways {
				if err := ctx.Err(); err != nil {
					return err
				}
				p, err := way.open(ctx, echo.program)
				if err != nil {
					return err
				}
				_, err = pump(p, window, b.warmup)
				rate := 0.0
				if err == nil {
					rate, err = pump(p, window, b.d)
				}
				if err = errors.Join(err, p.close()); err != nil {
					return fmt.Errorf("%s: %w", way.name, err)
				}
				rates[i] = append(rates[i], rate)
			}
			b.say("stdio, round %d, %d under way: %.0f/s over pipes, %.0f/s in the runtime", round+1, window, rates[0][round], rates[1][round])
		}
		ratio := summarize(ratios(rates[1], rates[0]))
		if ratio.median < worst.median {
			worst = ratio
		}
		rows = append(rows, []string{fmt.Sprint(window), summarize(rates[0]).String(), summarize(rates[1]).String(), ratio.String() + " times as fast"})
	}
	return errors.Join(b.publish("stdio", "stdio", false, table(rows)), b.found(targetStdio, worst))
}

// pair is a child and its two directions. write is called by one goroutine, and read by
// one other.
type pair struct {
	write func(wire.Message) error
	read  func() ([]byte, error) // the next message, which lasts until the next read
	close func() error
}

// pump has so many requests under way at a time, and checks the answers. They come in
// order: the child is one thread.
func pump(p pair, window int, d time.Duration) (rate float64, err error) {
	begin := time.Now()
	sent, answered := 0, 0
	for end := begin.Add(d); ; {
		for ; sent-answered < window && time.Now().Before(end); sent++ {
			text := strconv.Itoa(sent)
			if err := p.write(wire.NewRequest(wire.ID(text), "tools/call", []byte(`{"name":"echo","arguments":{"text":"`+text+`"}}`))); err != nil {
				return 0, err
			}
		}
		if sent == answered {
			return float64(answered) / time.Since(begin).Seconds(), nil
		}
		line, err := p.read()
		if err != nil {
			return 0, err
		}
		parts := gjson.GetManyBytes(line, "id", "result.content.0.text")
		if want := strconv.Itoa(answered); parts[0].Raw != want || parts[1].Str != want {
			return 0, fmt.Errorf("%.200s is not the answer to %s", line, want)
		}
		answered++
	}
}

func overPipes(_ context.Context, program string) (p pair, err error) {
	cmd := exec.Command(program) //nolint:noctx // it ends with its stdin
	in, err := cmd.StdinPipe()
	if err != nil {
		return p, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return p, err
	}
	lines := bufio.NewReaderSize(out, 64<<10)
	var line []byte
	p.write = func(m wire.Message) error {
		line = append(append(line[:0], m.Bytes()...), '\n')
		_, err := in.Write(line)
		return err
	}
	p.read = func() ([]byte, error) {
		line, err := lines.ReadSlice('\n')
		return bytes.TrimSpace(line), err
	}
	p.close = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	return p, cmd.Start()
}

func overRuntime(ctx context.Context, program string) (p pair, err error) {
	plugin := stdio.New(stdio.Config{Command: program, Logger: slog.New(slog.DiscardHandler)})
	host := &sink{messages: make(chan wire.Message, 64), exited: make(chan error, 1)}
	r, err := plugin.Build(ctx, host)
	if err != nil {
		return p, err
	}
	p.write = func(m wire.Message) error { return r.Deliver(ctx, m) }
	p.read = func() ([]byte, error) {
		select {
		case m := <-host.messages:
			return m.Bytes(), nil
		case err := <-host.exited:
			return nil, err
		}
	}
	p.close = func() error { return errors.Join(r.Close(ctx), plugin.Close(ctx)) }
	return p, nil
}

// sink is the session that a runtime works for: it hands on what it is sent.
type sink struct {
	messages chan wire.Message
	exited   chan error
}

func (s *sink) ID() string                   { return "bench" }
func (s *sink) Server() string               { return "echo" }
func (s *sink) Principal() mcp.Principal     { return mcp.Principal{} }
func (s *sink) Epoch() uint64                { return 1 }
func (s *sink) Handshake() mcp.Handshake     { return mcp.Handshake{} }
func (s *sink) State() mcp.State             { return nil }
func (s *sink) Logger() *slog.Logger         { return slog.New(slog.DiscardHandler) }
func (s *sink) Exited(err error)             { s.exited <- err }
func (s *sink) Charge(int64) (func(), error) { return func() {}, nil }
func (s *sink) Send(ctx context.Context, m wire.Message, _ wire.ID) error {
	select {
	case s.messages <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
