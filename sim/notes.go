package sim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// notes are the latest that happened in a world, and what its host logged.
type notes struct {
	lines []string // a ring
	next  int
	world *World
	log   io.Writer // is told all; nil: nobody is
}

const maxNotes = 30

func (n *notes) add(at time.Duration, step uint64, text string) {
	line := fmt.Sprintf("%12v step %-7d %s", at, step, text)
	if n.log != nil {
		fmt.Fprintln(n.log, line)
	}
	if len(n.lines) < maxNotes {
		n.lines = append(n.lines, line)
		return
	}
	n.lines[n.next] = line
	n.next = (n.next + 1) % maxNotes
}

// last are the latest, oldest first.
func (n *notes) last() []string {
	return append(append([]string{}, n.lines[n.next:]...), n.lines[:n.next]...)
}

// Enabled implements slog.Handler.
func (n *notes) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler.
func (n *notes) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s=%v", a.Key, a.Value); return true })
	if n.world != nil {
		n.world.logged(r)
		n.world.note("host: %s", b.String())
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (n *notes) WithAttrs([]slog.Attr) slog.Handler { return n }

// WithGroup implements slog.Handler.
func (n *notes) WithGroup(string) slog.Handler { return n }
