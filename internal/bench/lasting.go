package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"
)

const (
	// stay is how many calls a session makes before its client goes.
	stay = 200
	// restless is how long a session of a host under a lasting load is idle before its
	// server is reclaimed: short, so that all that comes in an hour comes in minutes.
	restless = "20s"
)

// measureLasting lets clients come and go for a long time, and compares the end with the
// beginning.
func (b *bench) measureLasting(ctx context.Context) error {
	folder, err := b.folder("lasting")
	if err != nil {
		return err
	}
	s := b.kalpa.server("kalpa", append([]string{"--idle-timeout", restless, "--retention", restless}, unbounded...)...)
	if err := s.start(ctx, folder, startLimit); err != nil {
		return err
	}
	defer s.end()
	window := min(time.Minute, b.lasting/6)
	l := &load{d: window}
	for range b.sessions {
		l.talkers = append(l.talkers, &visitor{visits: 1})
	}
	var rate, p99, memory, disk []float64
	var bad int64
	for begin := time.Now(); time.Since(begin) < b.lasting-window/2; {
		if err := ctx.Err(); err != nil {
			return err
		}
		turn, err := l.run(s.endpoint)
		if err != nil {
			return err
		}
		if bad += turn.bad; turn.first != nil {
			b.say("lasting: a bad answer: %v", turn.first)
		}
		resident, err := s.resident()
		if err != nil {
			return err
		}
		onDisk, err := allocated(folder)
		if err != nil {
			return err
		}
		rate, p99 = append(rate, turn.rate), append(p99, milliseconds(percentile(turn.took, 0.99)))
		memory, disk = append(memory, float64(resident)/1e6), append(disk, float64(onDisk)/1e6)
		b.say("lasting: %.0f/s, p99 %.1f ms, %.0f MB, %.0f MB on disk", turn.rate, p99[len(p99)-1], memory[len(memory)-1], disk[len(disk)-1])
	}
	last, visits := len(rate)-1, 0
	for _, t := range l.talkers {
		visits += t.(*visitor).visits
	}
	rows := [][]string{{"", "calls/s", "p99, ms", "resident, MB", "on disk, MB"}}
	for _, at := range []struct {
		name string
		n    int
	}{{"the first", 0}, {"in the middle", last / 2}, {"the last", last}} {
		rows = append(rows, []string{at.name + " " + window.String(), digits(rate[at.n]), digits(p99[at.n]), digits(memory[at.n]), digits(disk[at.n])})
	}
	text := fmt.Sprintf("%v, %s sessions, %d bad answers.\n\n", b.lasting, grouped(fmt.Sprint(visits)), bad)
	one := func(v float64) spread { return summarize([]float64{v}) }
	// The first half fills what is idle after a while; from then on memory is to be flat.
	return errors.Join(b.publish("lasting", "lasting", false, text+table(rows)),
		b.found(targetLasting, one(rate[last]/rate[0]), one(memory[last]/memory[last/2]), one(b.lasting.Minutes())))
}

// visitor is a client that opens a session, calls tools for a while, and goes: every
// second time without a word, so that the session stays and becomes idle.
type visitor struct {
	opener
	open    string // its session; empty while it is being opened
	calls   int
	counted int
	visits  int
	message []byte
}

// mixture is what a visitor calls, in turn.
var mixture = []struct{ tool, params string }{
	{"add", `{"name":"add","arguments":{"a":1,"b":2}}`},
	{"incr", `{"name":"incr","arguments":{}}`},
	{"echo", `{"name":"echo","arguments":{"text":"` + kilobyte + `"}}`},
	{"sleep", `{"name":"sleep","arguments":{"ms":0,"steps":5},"_meta":{"progressToken":1}}`},
}

func (v *visitor) id() int64 { return int64(firstCall + v.calls) }

func (v *visitor) request(to []byte, address, path string) []byte {
	switch {
	case v.open == "":
		return v.opener.request(to, address, path)
	case v.calls == stay:
		return append(append(append(append(append(append(to, "DELETE "...), path...), " HTTP/1.1\r\nHost: "...), address...),
			"\r\nMCP-Protocol-Version: "+protocol+"\r\nMcp-Session-Id: "...), v.open+"\r\n\r\n"...)
	}
	v.message = appendRequest(v.message[:0], v.id(), "tools/call", mixture[v.calls%len(mixture)].params)
	return appendPost(to, address, path, v.open, v.message)
}

func (v *visitor) answer(r response) (done bool, err error) {
	switch {
	case v.open == "":
		id := v.opener.id
		if done, err = v.opener.answer(r); done && err == nil {
			v.open, v.calls, v.counted = id, 0, 0
		}
		return done, err
	case v.calls == stay:
		v.leave()
		if r.status != 204 && r.status != 200 {
			err = fmt.Errorf("a DELETE was answered with status %d: %.200s", r.status, r.body)
		}
		return true, err
	}
	tool := mixture[v.calls%len(mixture)].tool
	want, messages := "3", payload(r.body)
	switch tool {
	case "incr":
		v.counted++
		want = fmt.Sprint(v.counted)
	case "echo":
		want = kilobyte
	case "sleep":
		want = "slept 0 ms"
		if len(messages) != 6 || gjson.GetBytes(messages[4], "params.progress").Int() != 5 {
			err = fmt.Errorf("five reports of progress and an answer are %d messages", len(messages))
		}
	}
	if r.status != 200 {
		err = fmt.Errorf("status %d: %.200s", r.status, r.body)
	}
	if err == nil {
		var a answer
		if a, err = pick(messages, v.id()); err == nil {
			err = a.says(want)
		}
	}
	if v.calls++; v.calls == stay && v.visits%2 == 0 {
		v.leave()
	}
	return true, err
}

func (v *visitor) leave() {
	v.open = ""
	v.visits++
}

func (v *visitor) next() bool { return true }
