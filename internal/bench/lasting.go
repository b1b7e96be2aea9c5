package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// settles is how long a host that is not loaded any more gets until the other one's minute
// begins: longer than its servers stay.
const settles = 25 * time.Second

// churn is a host with the clients that come and go.
type churn struct {
	*server
	load     load
	visitors []*visitor
	bad      int64
}

func (b *bench) churn(ctx context.Context, name string, window time.Duration) (*churn, error) {
	folder, err := b.folder(name)
	if err != nil {
		return nil, err
	}
	c := &churn{server: b.kalpa.server(name, append([]string{"--idle-timeout", restless, "--retention", restless}, unbounded...)...), load: load{d: window}}
	for range b.sessions {
		v := &visitor{visits: 1}
		c.visitors, c.load.talkers = append(c.visitors, v), append(c.load.talkers, v)
	}
	return c, c.start(ctx, folder, startLimit)
}

// minute is a window of the load; its columns are those of the table.
type minute struct{ rate, p99, memory, disk float64 }

func (b *bench) minute(c *churn) (m minute, err error) {
	turn, err := c.load.run(c.endpoint)
	if err != nil {
		return m, err
	}
	if c.bad += turn.bad; turn.first != nil {
		b.say("lasting: a bad answer: %v", turn.first)
	}
	resident, err := c.resident()
	if err != nil {
		return m, err
	}
	onDisk, err := allocated(c.folder)
	if err != nil {
		return m, err
	}
	m = minute{turn.rate, milliseconds(percentile(turn.took, 0.99)), float64(resident) / 1e6, float64(onDisk) / 1e6}
	b.say("lasting: %s: %.0f/s, p99 %.1f ms, %.0f MB, %.0f MB on disk", c.name, m.rate, m.p99, m.memory, m.disk)
	return m, nil
}

// measureLasting lets clients come and go for a long time, and then compares the host in
// turn with one that begins: the machine is not what it was an hour ago.
func (b *bench) measureLasting(ctx context.Context) error {
	window := min(time.Minute, b.lasting/6)
	old, err := b.churn(ctx, "lasting", window)
	if err != nil {
		return err
	}
	defer old.end()
	var all []minute
	for begin := time.Now(); time.Since(begin) < b.lasting-window/2; {
		if err := ctx.Err(); err != nil {
			return err
		}
		m, err := b.minute(old)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	first, middle, last := all[0], all[(len(all)-1)/2], all[len(all)-1]
	var news, olds, ratios []float64
	for range b.rounds {
		now, then, err := b.inTurn(ctx, old, window)
		if err != nil {
			return err
		}
		news, olds, ratios = append(news, then), append(olds, now), append(ratios, now/then)
	}
	visits := 0
	for _, v := range old.visitors {
		visits += v.visits
	}
	rows := [][]string{{"", "calls/s", "p99, ms", "resident, MB", "on disk, MB"}}
	for _, at := range []struct {
		name string
		minute
	}{{"the first", first}, {"in the middle", middle}, {"the last", last}} {
		rows = append(rows, []string{at.name + " " + window.String(), digits(at.rate), digits(at.p99), digits(at.memory), digits(at.disk)})
	}
	text := fmt.Sprintf("%v, %s sessions, %d bad answers.\n\n", b.lasting, grouped(fmt.Sprint(visits)), old.bad)
	turns := table([][]string{
		{"in turn, " + window.String() + " each", "calls/s", ""},
		{"a host that begins", summarize(news).String(), ""},
		{"the host after " + b.lasting.String(), summarize(olds).String(), summarize(ratios).String() + " times as fast"},
	})
	one := func(v float64) spread { return summarize([]float64{v}) }
	// The first half fills what is idle after a while; from then on memory is to be flat.
	return errors.Join(b.publish("lasting", "lasting", false, text+table(rows)+"\n"+turns),
		b.found(targetLasting, summarize(ratios), one(last.memory/middle.memory), one(b.lasting.Minutes())))
}

// inTurn measures a host that begins, and then the old one: how many calls a second each.
func (b *bench) inTurn(ctx context.Context, old *churn, window time.Duration) (now, then float64, err error) {
	select {
	case <-time.After(min(settles, window)):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	begins, err := b.churn(ctx, "beginning", window)
	if err != nil {
		return 0, 0, err
	}
	m, err := b.minute(begins)
	begins.end()
	if err = errors.Join(err, os.RemoveAll(begins.folder)); err != nil {
		return 0, 0, err
	}
	then = m.rate
	m, err = b.minute(old)
	return m.rate, then, err
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
