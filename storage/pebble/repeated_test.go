package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestWhatHappensAgainAndAgainIsSaidOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1, 0)
	r := newRepeated(slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return now })
	lines := func() (all []string) {
		for line := range strings.Lines(out.String()) {
			_, text, _ := strings.Cut(strings.TrimSpace(line), "msg=")
			all = append(all, text)
		}
		out.Reset()
		return all
	}
	for range 100 {
		r.error("damaged", "path", "000005.sst", "err", errors.New("checksum"))
		now = now.Add(time.Millisecond)
	}
	r.error("damaged", "path", "000006.sst", "err", errors.New("checksum"))
	if got, want := fmt.Sprint(lines()), "[damaged path=000005.sst err=checksum damaged path=000006.sst err=checksum]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	now = now.Add(sayAgain)
	r.error("damaged", "path", "000005.sst", "err", errors.New("checksum"))
	if got, want := fmt.Sprint(lines()), "[damaged path=000005.sst err=checksum times_since=99]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for n := range 10 * mostSaid {
		r.error("damaged", "path", n)
	}
	if len(lines()) != 10*mostSaid || len(r.said) > mostSaid {
		t.Errorf("%d are remembered, of %d at most", len(r.said), mostSaid)
	}
}
