package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// job is a load on sessions: each calls a tool and waits for the answer, and again.
type job struct {
	tool        string // add, incr or echo
	sessions    int
	connections int // that share the sessions; 0: each session has its own
	warmup, d   time.Duration
}

// turn opens the job's sessions at a server, and drives it.
func (j job) turn(s *server, _ int) (sample, error) {
	all, _, err := opened(s.endpoint, j.sessions)
	if err != nil {
		return sample{}, err
	}
	return j.load(all).run(s.endpoint)
}

// sessions are those that a job's load calls.
type sessions []hosted

// hosted is a session that calls tools.
type hosted struct {
	id    string
	calls int // so far
}

// load is that of sessions that are open.
func (j job) load(all sessions) *load {
	l := &load{warmup: j.warmup, d: j.d}
	step := j.connections
	if step == 0 || step > len(all) {
		step = len(all)
	}
	for first := range step {
		l.talkers = append(l.talkers, &caller{job: j, all: all, step: step, at: first})
	}
	return l
}

// stored are sessions that were opened before, by who did not say how often they called.
func stored(ids []string) sessions {
	all := make(sessions, len(ids))
	for i, id := range ids {
		all[i] = hosted{id: id, calls: 1 << 20} // request ids that none has had
	}
	return all
}

// each lets every session call once.
func (all sessions) each(endpoint, tool string, connections int) (sample, error) {
	return job{tool: tool, connections: connections}.load(all).ending().all(endpoint)
}

// ending makes every session of a load of calls call once.
func (l *load) ending() *load {
	l.once = true
	for _, t := range l.talkers {
		t.(*caller).once = true
	}
	return l
}

// caller is a connection that calls tools of its share of the sessions, in turn.
type caller struct {
	job
	all      sessions
	step, at int
	once     bool // each session calls once
	message  []byte
}

// firstCall is the id of a session's first call: initialize had the one before.
const firstCall = 2

func (c *caller) id() int64 { return int64(firstCall + c.all[c.at].calls) }

func (c *caller) request(to []byte, address, path string) []byte {
	arguments, _ := c.question(c.at, c.all[c.at].calls+1)
	c.message = appendCall(c.message[:0], c.id(), c.tool, arguments)
	return appendPost(to, address, path, c.all[c.at].id, c.message)
}

func (c *caller) answer(r response) (done bool, err error) {
	_, want := c.question(c.at, c.all[c.at].calls+1)
	if r.status != 200 {
		return true, fmt.Errorf("status %d: %.200s", r.status, r.body)
	}
	a, err := pick(payload(r.body), c.id())
	if err == nil {
		err = a.says(want)
	}
	return true, err
}

func (c *caller) next() bool {
	c.all[c.at].calls++
	if c.at += c.step; c.at >= len(c.all) {
		c.at %= c.step
		return !c.once
	}
	return true
}

// question is the n-th call of a session, and the answer to it.
func (j job) question(session, n int) (arguments, want string) {
	switch j.tool {
	case "incr":
		return `{}`, fmt.Sprint(n)
	case "echo":
		text := fmt.Sprint(session, " ", n)
		return `{"text":"` + text + `"}`, text
	}
	return fmt.Sprintf(`{"a":%d,"b":%d}`, session, n), fmt.Sprint(session + n)
}

// openers is how many sessions are being opened at a time.
const openers = 32

// opened opens sessions, and tells what each took.
func opened(endpoint string, n int) (sessions, sample, error) {
	all := make(sessions, n)
	l := &load{once: true}
	for first := range min(openers, n) {
		l.talkers = append(l.talkers, &opener{into: all, at: first})
	}
	s, err := l.all(endpoint)
	if err != nil {
		return nil, s, fmt.Errorf("opening a session: %w", err)
	}
	return all, s, nil
}

// opener is a connection that opens sessions, one after the other. One is open when
// the server has taken what says that its client is ready.
type opener struct {
	into sessions // where they go; nil: any number of them, and nowhere
	at   int
	id   string // of the one that is being opened
}

var sessionField = []byte("mcp-session-id")

func (o *opener) request(to []byte, address, path string) []byte {
	if o.id == "" {
		return appendPost(to, address, path, "", appendRequest(nil, firstCall-1, "initialize", initialization))
	}
	return appendPost(to, address, path, o.id, []byte(initialized))
}

func (o *opener) answer(r response) (done bool, err error) {
	if o.id == "" {
		if r.status != 200 {
			return true, fmt.Errorf("status %d: %.200s", r.status, r.body)
		}
		if _, err := pick(payload(r.body), firstCall-1); err != nil {
			return true, err
		}
		if o.id = string(r.field(sessionField)); o.id == "" {
			return true, errors.New("initialize was answered without a session id")
		}
		return false, nil
	}
	if o.into != nil {
		o.into[o.at].id = o.id
	}
	o.id = ""
	if r.status >= 300 || len(bytes.TrimSpace(r.body)) > 0 {
		return true, fmt.Errorf("a notification was answered with status %d: %.200s", r.status, r.body)
	}
	return true, nil
}

func (o *opener) next() bool {
	if o.into == nil || o.id != "" {
		return true
	}
	o.at += openers
	return o.at < len(o.into)
}
