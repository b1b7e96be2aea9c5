package stdio

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// outlet is the reading end of a child's pipe. Once the child is gone, what is in
// the pipe is still read, but nobody is waited for: a process that got away may
// hold the other end for ever.
type outlet struct {
	*os.File
	ending atomic.Bool
}

func (o *outlet) Read(p []byte) (int, error) {
	if o.ending.Load() {
		o.SetReadDeadline(time.Now().Add(drainWait))
	}
	return o.File.Read(p)
}

func (o *outlet) end() {
	o.ending.Store(true)
	o.SetReadDeadline(time.Now().Add(drainWait))
}

// readStdout passes the server's messages on. While Send blocks, the pipe fills,
// and then the server blocks: that is the back-pressure.
func (r *Runtime) readStdout() {
	in := newLines(r.stdout, r.config.MaxLine)
	noise := newNoise(r.log)
	silent := true
	for {
		line, skipped, err := in.next()
		if errors.Is(err, errEndless) {
			r.failed("wrote a line that does not end, so it was killed")
			return
		}
		if err != nil {
			// Most often the child is exiting; watch waits a little to see.
			r.failed("closed its stdout and did not exit, so it was killed")
			return
		}
		if skipped.size > 0 {
			noise.log(slog.LevelError, "server wrote a line that is too long; it was skipped",
				"bytes", skipped.size, "max", r.config.MaxLine)
			m, answered, lost := longAnswer(skipped, r.config.MaxLine)
			switch {
			case answered:
				r.send(m)
			case lost:
				r.failed("wrote a line that is too long and may have been an answer, so it was killed")
				return
			}
			continue
		}
		if len(line) == 0 || r.sending.Err() != nil {
			continue
		}
		messages, _, err := wire.ParseBody(line)
		if err != nil {
			var syntax *wire.SyntaxError
			if errors.As(err, &syntax) && syntax.Code == wire.ParseError {
				noise.log(slog.LevelWarn, "server wrote a line to stdout that is no message; it was skipped",
					"line", excerpt(line))
			} else {
				noise.log(slog.LevelWarn, "server wrote an invalid message; it was skipped",
					"error", err, "line", excerpt(line))
			}
			if m, ok := invalidAnswer(line, err); ok {
				r.send(m)
			}
			continue
		}
		if silent {
			silent = false
			r.speaks()
		}
		for _, m := range messages {
			r.send(m)
		}
	}
}

// speaks notes that the server has said something.
func (r *Runtime) speaks() {
	r.mu.Lock()
	r.spoken = true
	r.mu.Unlock()
	r.plugin.speaks()
}

func (r *Runtime) send(m wire.Message) {
	err := r.session.Send(r.sending, m, "")
	switch {
	case err == nil || r.sending.Err() != nil:
	case errors.Is(err, mcp.ErrReset):
		// The session has gone on; Close is on its way. The child may still write.
		r.stopSend()
	default:
		r.log.Warn("message of the server could not be passed on", "error", err)
	}
}

// readStderr keeps the tail and logs the lines.
func (r *Runtime) readStderr() {
	in := bufio.NewReaderSize(r.stderr, maxLogLine)
	noise := newNoise(r.log)
	for {
		part, err := in.ReadSlice('\n')
		r.tail.write(part)
		if text := printable(part); len(text) > 1 || text != "" && text != "\n" {
			noise.log(r.config.StderrLevel, "server stderr", "text", trimEnd(text))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func trimEnd(s string) string {
	if n := len(s); n > 0 && s[n-1] == '\n' {
		return s[:n-1]
	}
	return s
}

// noise logs what a child causes, up to a rate, and counts the rest.
type noise struct {
	logger  *slog.Logger
	limit   *rate.Limiter
	dropped int
}

func newNoise(l *slog.Logger) *noise {
	return &noise{logger: l, limit: rate.NewLimiter(logRate, logBurst)}
}

func (n *noise) log(level slog.Level, msg string, args ...any) {
	ctx := context.Background()
	if !n.logger.Enabled(ctx, level) {
		return
	}
	if !n.limit.Allow() {
		n.dropped++
		return
	}
	if n.dropped > 0 {
		args = append(args, "records_dropped_before", n.dropped)
		n.dropped = 0
	}
	n.logger.Log(ctx, level, msg, args...)
}

var _ io.Reader = (*outlet)(nil)
