package cmd

import (
	"io"
	"log/slog"

	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/internal/telemetry"
)

// newLogger makes the logger that the settings ask for, which config has checked.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(w, o)))
	}
	return slog.New(telemetry.LogHandler(slog.NewTextHandler(w, o)))
}
