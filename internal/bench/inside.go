package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// inside is what Go benchmarks of the packages measure, where a connection would be most of
// what is measured.
var inside = []struct {
	benchmark, time, unit string // of testing's own command line and output
	what                  string
	micro                 float64 // how many of the unit are a microsecond
	target                target
}{
	{"BenchmarkTurn/object,_sent_before", "1s", "ns/turn", "a turn without storage, from a queue of calls that were sent before to the answer, µs", 1000, targetTurn},
	{"BenchmarkActivate", "20000x", "p50-us", "the first call of an object with 1 KiB of state on disk, p50, µs", 1, targetActivate},
}

// measureInside measures what the host itself takes, in one process, without HTTP.
func (b *bench) measureInside(ctx context.Context) error {
	rows := [][]string{{"inside the host", "measured", "command"}}
	for _, i := range inside {
		args := []string{"test", "-run", "^$", "-bench", i.benchmark + "$", "-benchtime", i.time, "-count", strconv.Itoa(b.rounds), "./actor"}
		out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", i.benchmark, err, out)
		}
		values := reported(string(out), i.benchmark, i.unit)
		if len(values) != b.rounds {
			return fmt.Errorf("%s told %d times what its %s is, and not %d times:\n%s", i.benchmark, len(values), i.unit, b.rounds, out)
		}
		for n := range values {
			values[n] /= i.micro
		}
		if err := b.found(i.target, summarize(values)); err != nil {
			return err
		}
		rows = append(rows, []string{i.what, summarize(values).String(), "`go " + strings.Join(args, " ") + "`"})
	}
	return b.publish("inside", "inside", false, table(rows))
}

// reported are the values that a Go benchmark has reported in a unit, one for each time that
// it ran.
func reported(out, benchmark, unit string) (values []float64) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		name := fields[0]
		if at := strings.LastIndexByte(name, '-'); at > 0 { // the number of processors
			name = name[:at]
		}
		if name != benchmark {
			continue
		}
		for n := 3; n < len(fields); n += 2 {
			if v, err := strconv.ParseFloat(fields[n-1], 64); err == nil && fields[n] == unit {
				values = append(values, v)
			}
		}
	}
	return values
}
