package pebble_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/storage/pebble"
)

// An operator who did not ask hears nothing of a store that is well.
func TestTheEnginesChatterIsForDebugging(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var out bytes.Buffer
		s := mustOpen(t, pebble.Options{FS: vfs.NewMem(), Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := out.Len() > 0; got != want {
			t.Errorf("at level %v the log says:\n%s", level, out.String())
		}
	}
}
