package cmd

import (
	"io"
	"log/slog"

	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/internal/telemetry"
)

// newLogger makes the logger that the settings ask for, which config has checked. Its
// level can be changed.
func newLogger(w io.Writer, c config.Log) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(levelOf(c.Level))
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(w, o))), level
	}
	o.ReplaceAttr = said
	return slog.New(telemetry.LogHandler(slog.NewTextHandler(w, o))), level
}

// said leaves of an error what it says, as the JSON handler does. The text handler prints
// with %+v, by which errors of the store's engine have their stacks: kilobytes.
func said(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindAny {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(err.Error())
		}
	}
	return a
}

func levelOf(name string) (level slog.Level) {
	if err := level.UnmarshalText([]byte(name)); err != nil {
		level = slog.LevelInfo
	}
	return level
}
