package pebble

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// engineLog is what Pebble logs to. Its chatter is for debugging; what it calls
// an error is one; and where it means to end the process, it does.
type engineLog struct {
	log  *slog.Logger
	fail func(error)
}

func (l engineLog) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("engine: " + fmt.Sprintf(format, args...))
	}
}

func (l engineLog) Errorf(format string, args ...any) {
	l.log.Error("engine: " + fmt.Sprintf(format, args...))
}

// fatal is why the engine means to end the process, and the panic that does so
// where Fatal has returned: the engine must not run on after Fatalf.
type fatal struct {
	text  string
	cause error // one of Fatalf's arguments, if it was an error
}

func (f *fatal) Error() string { return "the storage engine can't go on: " + f.text }
func (f *fatal) Unwrap() error { return f.cause }

func (l engineLog) Fatalf(format string, args ...any) {
	err := &fatal{text: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if e, ok := a.(error); ok {
			err.cause = e
		}
	}
	l.fail(err)
	panic(err)
}

// gaveUp turns a panic of the engine into an error. Not all that it can't go on
// with comes by Fatalf: it panics with the error of a directory that can't be
// synced. A panic that is a bug stays one.
func gaveUp(p any) error {
	if err, ok := p.(error); ok {
		if _, bug := p.(runtime.Error); !bug {
			return err
		}
	}
	panic(p)
}

// events tells of what an operator has to know: the disk does not keep up, or fails. failed
// is called when a flush or a compaction has failed, with locks of the engine held.
func events(log *slog.Logger, debug pebble.Logger, failed func()) *pebble.EventListener {
	var stalled time.Time // stalls begin and end under one lock of Pebble's
	again := newRepeated(log, time.Now)
	told := pebble.EventListener{
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			stalled = time.Now()
			log.Warn("the disk does not keep up: commits wait", "reason", i.Reason)
		},
		WriteStallEnd: func() {
			log.Warn("commits go on", "waited", time.Since(stalled))
		},
		DiskSlow: func(i pebble.DiskSlowInfo) {
			log.Warn("a disk operation is slow", "op", i.OpType.String(), "path", i.Path, "taken", i.Duration)
		},
		LowDiskSpace: func(i pebble.LowDiskSpaceInfo) {
			log.Warn("the disk is nearly full", "avail_bytes", i.AvailBytes, "total_bytes", i.TotalBytes)
		},
		BackgroundError: func(err error) {
			failed()
			again.error("a flush or a compaction failed, and will be tried again", "err", legible{err})
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			again.error("the store is damaged; kalpa check says what is lost and what to do", "path", i.Path, "err", i.Details)
		},
	}
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return &told
	}
	l := pebble.TeeEventListener(told, quiet(pebble.MakeLoggingEventListener(debug)))
	return &l
}

// quiet leaves out what told says already.
func quiet(l pebble.EventListener) pebble.EventListener {
	l.WriteStallBegin, l.WriteStallEnd, l.DiskSlow = nil, nil, nil
	l.LowDiskSpace, l.BackgroundError, l.DataCorruption = nil, nil, nil
	return l
}
