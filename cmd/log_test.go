package cmd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/internal/config"
)

// verbose is an error as the store's engine makes them: %+v prints its stack.
type verbose struct{}

func (verbose) Error() string { return "block 7: checksum mismatch" }

func (v verbose) Format(s fmt.State, verb rune) {
	_, _ = fmt.Fprint(s, v.Error())
	if s.Flag('+') {
		_, _ = fmt.Fprint(s, "\n  -- stack trace:\n  | engine.read")
	}
}

// A line has what an error says, in both formats, and not where in the program it was made.
func TestALineHasWhatAnErrorSays(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		log, _ := newLogger(&out, config.Log{Level: "info", Format: format})
		log.With("first", verbose{}).WithGroup("store").Error("the store is damaged", "err", fmt.Errorf("read: %w", verbose{}), "cause", verbose{}, "none", error(nil))
		line := out.String()
		if strings.Contains(line, "stack trace") || strings.Count(line, "block 7: checksum mismatch") != 3 || strings.Count(line, "\n") != 1 {
			t.Errorf("%s: %s", format, line)
		}
	}
}
