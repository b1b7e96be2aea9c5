package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// server is the model of an MCP server: the plugin of a simulated host. It has a
// tool of every kind; see Tools.
type server struct {
	w    *World
	p    *Process
	rand *rand.Rand
}

// Tools are what the model server can be asked to do. Each takes n, which says who
// asks, and ms, how long it takes, where that makes sense.
var Tools = []string{
	"echo",   // answers at once
	"incr",   // counts in durable state
	"slow",   // answers after a while
	"stream", // reports progress, and answers
	"ask",    // asks the client a question in its middle
	"greedy", // keeps memory for a while
	"spin",   // holds the turn
	"die",    // ends its process
	"never",  // does not answer
}

// repeatable are those that change nothing.
var repeatable = []string{"echo", "slow", "stream"}

// Build implements mcp.Plugin.
func (v *server) Build(ctx context.Context, s mcp.Session) (mcp.Runtime, error) {
	v.w.tales.tell("", s.ID(), AtSession, AtRuntime, false, "a runtime is asked for")
	v.p.Sleep(v.w.plan.Build.draw(v.rand))
	if v.rand.Float64() < v.w.plan.BuildFails {
		return nil, errors.New("the model server does not start")
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	rt := &resident{v: v, s: s, asked: map[wire.ID]*question{}, used: v.w.s.now}
	if _, err := s.Charge(runtimeBytes); err != nil {
		return nil, err
	}
	v.w.built(rt)
	return rt, nil
}

// runtimeBytes is what a model runtime charges.
const runtimeBytes = 256 << 10

// resident is the model server at work for one session.
type resident struct {
	v      *server
	s      mcp.Session
	closed bool
	asks   int
	asked  map[wire.ID]*question // of its requests to the client
	calls  int                   // that have not been answered
	used   time.Time             // something came or went
	ending bool
}

type question struct {
	wake   run.Signal
	answer wire.Message
}

// Deliver implements mcp.Runtime.
func (rt *resident) Deliver(_ context.Context, m wire.Message) error {
	rt.used = rt.v.w.s.now
	switch {
	case m.Kind() == wire.Response:
		if q := rt.asked[m.ID()]; q != nil {
			q.answer = m
			q.wake.Set()
		}
	case m.Is("initialize"):
		rt.answer(m, `{"protocolVersion":`+string(m.Param("protocolVersion"))+`,"capabilities":{"tools":{}},"serverInfo":{"name":"model","version":"1"}}`)
	case m.Is("tools/list"):
		tools := make([]string, len(Tools))
		for i, name := range Tools {
			tools[i] = fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":%t}}`, name, slices.Contains(repeatable, name))
		}
		rt.answer(m, `{"tools":[`+strings.Join(tools, ",")+`]}`)
	case m.Is("tools/call"):
		rt.v.p.Go(func() { rt.call(m) })
	case m.Kind() == wire.Request:
		rt.answer(m, `{}`)
	}
	return nil
}

func (rt *resident) answer(m wire.Message, result string) {
	rt.used = rt.v.w.s.now
	_ = rt.s.Send(context.Background(), wire.NewResult(m.ID(), []byte(result)), "") // a session that goes on without it wants no answer
}

func (rt *resident) call(m wire.Message) {
	args := gjson.GetBytes(m.Params(), "arguments")
	n, d := args.Get("n").String(), time.Duration(args.Get("ms").Int())*time.Millisecond
	tool := m.ParamString("name")
	rt.v.w.history.started(rt.s.ID(), n)
	rt.calls++
	rt.v.w.tales.of(n, AtSession, AtRuntime, "%s", tool)
	done := func(result string) {
		rt.calls--
		rt.v.w.tales.of(n, AtRuntime, AtSession, "result: %s", result)
		rt.answer(m, fmt.Sprintf(`{"n":%q,"value":%q}`, n, result))
	}
	switch tool {
	case "incr":
		var value string
		err := rt.s.State().Update(context.Background(), "count", func(old []byte) ([]byte, error) {
			was, _ := strconv.Atoi(string(old))
			value = strconv.Itoa(was + 1)
			return []byte(value), nil
		})
		if err == nil {
			done(value)
		}
	case "slow":
		rt.v.p.Sleep(d)
		done("slow")
	case "stream":
		for i := range 4 {
			rt.v.p.Sleep(d / 4)
			rt.v.w.tales.of(n, AtRuntime, AtSession, "progress %d", i)
			_ = rt.s.Send(context.Background(), wire.NewNotification("notifications/progress",
				fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, m.Param(wire.TokenOfRequest), i)), m.ID())
		}
		done("stream")
	case "ask":
		done(rt.ask(m))
	case "greedy":
		if release, err := rt.s.Charge(args.Get("bytes").Int()); err == nil {
			rt.v.p.Sleep(d)
			release()
			done("greedy")
		}
	case "spin":
		_ = rt.s.State().Update(context.Background(), "spin", func([]byte) ([]byte, error) {
			rt.v.p.Sleep(d)
			return []byte("x"), nil
		})
		done("spin")
	case "die":
		rt.s.Exited(errors.New("the model server died"))
	case "never":
	default:
		done("echo")
	}
}

// ask asks the client's person, and waits for the answer.
func (rt *resident) ask(m wire.Message) string {
	rt.asks++
	id, q := wire.StringID(fmt.Sprintf("q%d", rt.asks)), &question{wake: rt.v.p.Signal()}
	rt.asked[id] = q
	defer delete(rt.asked, id)
	if rt.s.Send(context.Background(), wire.NewRequest(id, "elicitation/create", []byte(`{"message":"?"}`)), m.ID()) != nil {
		return "gone"
	}
	q.wake.Wait()
	if rt.closed {
		return "closed"
	}
	return gjson.GetBytes(q.answer.Result(), "action").String()
}

// Close implements mcp.Runtime.
func (rt *resident) Close(context.Context) error {
	if rt.closed {
		return nil
	}
	rt.ending = true
	rt.v.p.Sleep(rt.v.w.plan.Close.draw(rt.v.rand))
	rt.closed = true
	ids := make([]string, 0, len(rt.asked))
	for id := range rt.asked {
		ids = append(ids, string(id))
	}
	slices.Sort(ids)
	for _, id := range ids {
		rt.asked[wire.ID(id)].wake.Set()
	}
	rt.v.w.reaped(rt)
	return nil
}
