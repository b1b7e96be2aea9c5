package soak

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// Serve is an MCP server on in and out that has of the demo's tools those that a storm
// calls and that count nothing: add and sleep. It returns when in ends.
func Serve(in io.Reader, out io.Writer) error {
	var (
		mu    sync.Mutex
		under sync.WaitGroup
	)
	send := func(m any) {
		b, err := json.Marshal(m)
		if err != nil {
			panic(err) // it is made of what can be
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(b, '\n')) // a host that is gone reads nothing
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := gjson.ParseBytes(append([]byte(nil), lines.Bytes()...))
		id := json.RawMessage(m.Get("id").Raw)
		if len(id) == 0 || !m.Get("method").Exists() {
			continue
		}
		answer := func(result any) { send(map[string]any{"jsonrpc": "2.0", "id": id, "result": result}) }
		text := func(s string) {
			answer(map[string]any{"content": []any{map[string]string{"type": "text", "text": s}}})
		}
		arguments := m.Get("params.arguments")
		switch tool := m.Get("params.name").Str; {
		case m.Get("method").Str == "initialize":
			answer(map[string]any{
				"protocolVersion": m.Get("params.protocolVersion").Str, "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]string{"name": "soak", "version": "1"},
			})
		case m.Get("method").Str == "tools/list":
			var tools []any
			for _, name := range []string{"add", "sleep"} {
				tools = append(tools, map[string]any{"name": name, "inputSchema": map[string]string{"type": "object"}})
			}
			answer(map[string]any{"tools": tools})
		case tool == "add":
			text(strconv.FormatInt(arguments.Get("a").Int()+arguments.Get("b").Int(), 10))
		case tool == "sleep":
			under.Go(func() {
				ms, steps := arguments.Get("ms").Int(), max(arguments.Get("steps").Int(), 1)
				for n := range steps {
					time.Sleep(time.Duration(ms/steps) * time.Millisecond)
					if token := m.Get("params._meta.progressToken"); token.Exists() {
						send(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress", "params": map[string]any{
							"progressToken": json.RawMessage(token.Raw), "progress": n + 1,
						}})
					}
				}
				text(fmt.Sprintf("slept %d ms", ms))
			})
		default:
			answer(map[string]any{})
		}
	}
	under.Wait()
	return lines.Err()
}
