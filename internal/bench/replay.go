package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// replayed is how many events are replayed at a time.
const replayed = 1000

// eventSizes are the bytes of an event's message; the JSON and the frame around it are
// some 200 more.
var eventSizes = []int{16, 1 << 10, 3 << 10}

// measureReplay measures how fast a client that comes back gets the events that it has
// missed.
func (b *bench) measureReplay(ctx context.Context) error {
	echo, err := b.build(ctx, "./internal/bench/echo", "")
	if err != nil {
		return err
	}
	folder, err := b.folder("replay")
	if err != nil {
		return err
	}
	s := b.kalpa.server("kalpa", "--retention", "1h", "--idle-timeout", "0", "--", echo.program)
	if err := s.start(ctx, folder, startLimit); err != nil {
		return err
	}
	defer s.end()
	rows := [][]string{{"bytes an event, on the wire", "MB/s", "events/s", "ms, of all " + grouped(fmt.Sprint(replayed))}}
	var smallest spread // events, whose replay is the slowest in bytes
	for i, size := range eventSizes {
		stream, err := record(s.endpoint, size)
		if err != nil {
			return err
		}
		if _, err := stream.replays(b.warmup); err != nil {
			return err
		}
		var rate, events, took []float64
		for round := range b.rounds {
			each, err := stream.replays(b.d)
			if err != nil {
				return err
			}
			rate = append(rate, float64(len(stream.want))/1e6/each)
			events = append(events, replayed/each)
			took = append(took, each*1e3)
			b.say("replay, round %d: %d events of %d bytes, %.0f MB/s", round+1, replayed, len(stream.want)/replayed, rate[round])
		}
		stream.close()
		if i == 0 {
			smallest = summarize(rate)
		}
		rows = append(rows, []string{
			grouped(fmt.Sprint(len(stream.want) / replayed)), summarize(rate).String(), summarize(events).String(), summarize(took).String(),
		})
	}
	return errors.Join(b.publish("replay", "replay", false, table(rows)), b.found(targetReplay, smallest))
}

// stream is a POST's, whose events were received once.
type stream struct {
	*client
	after string // the id of the event before the first
	want  []byte // what comes after it
}

// record lets a session send the events, and keeps what came.
func record(endpoint string, size int) (*stream, error) {
	c, err := open(endpoint)
	if err != nil {
		return nil, err
	}
	s := &stream{client: c}
	call := appendRequest(nil, c.next(), "tools/call",
		fmt.Sprintf(`{"name":"events","arguments":{"n":%d,"size":%d},"_meta":{"progressToken":1}}`, replayed, size))
	body, err := s.body(appendPost(nil, c.host, c.path, c.session, call))
	if err != nil {
		return nil, err
	}
	if _, err := pick(payload(body), c.id); err != nil {
		return nil, err
	}
	// The first event is the last that the client will say it has had.
	head, rest, found := bytes.Cut(body, []byte("\n\n"))
	id, named := bytes.CutPrefix(head[bytes.LastIndex(head, []byte("id: "))+1:], []byte("d: "))
	id, _, _ = bytes.Cut(id, []byte("\n"))
	if n := bytes.Count(rest, []byte("data: {")); !found || !named || n < replayed {
		return nil, fmt.Errorf("a call of %d events has sent %d, after %.200q", replayed, n, head)
	}
	s.after, s.want = string(id), rest
	return s, nil
}

// replays replays for some time, and tells how long one took, in seconds.
func (s *stream) replays(d time.Duration) (each float64, err error) {
	begin := time.Now()
	for n := 1.0; ; n++ {
		if err := s.replay(); err != nil {
			return 0, err
		}
		if took := time.Since(begin); took >= d {
			return took.Seconds() / n, nil
		}
	}
}

// replay asks for what comes after the first event. It must be, byte for byte, what came
// the first time.
func (s *stream) replay() error {
	body, err := s.body([]byte("GET " + s.path + " HTTP/1.1\r\nHost: " + s.host + "\r\nAccept: text/event-stream\r\nMcp-Session-Id: " + s.session +
		"\r\nMCP-Protocol-Version: " + protocol + "\r\nLast-Event-ID: " + s.after + "\r\n\r\n"))
	if err == nil && !bytes.Equal(body, s.want) {
		err = fmt.Errorf("a replay of %d bytes is not what came first, which was %d bytes; it ends with %q", len(body), len(s.want), body[max(0, len(body)-200):])
	}
	return err
}

// body sends a request and reads all of its answer.
func (s *stream) body(request []byte) ([]byte, error) {
	r, err := s.send(request)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	body.Grow(len(s.want) + 1<<10)
	_, err = io.Copy(&body, r.Body)
	if err = errors.Join(err, r.Body.Close()); err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.200s", r.StatusCode, body.Bytes())
	}
	return body.Bytes(), err
}
