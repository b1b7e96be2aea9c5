// Command echo is a small MCP server on stdin and stdout, for the parts of the benchmarks
// that need one: its tool echo says text back, and events reports progress n times, each
// time with a message of so many bytes, before it answers.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/tidwall/gjson"
)

func main() {
	in := bufio.NewReaderSize(os.Stdin, 64<<10)
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return // the host is gone, or wants no more
		}
		answer(out, gjson.ParseBytes(line))
		if in.Buffered() > 0 {
			continue // what waits is answered with it
		}
		if out.Flush() != nil {
			return
		}
	}
}

func answer(out *bufio.Writer, m gjson.Result) {
	id, method := m.Get("id"), m.Get("method").Str
	if !id.Exists() || method == "" {
		return
	}
	result, arguments := "{}", m.Get("params.arguments")
	switch tool := m.Get("params.name").Str; {
	case method == "initialize":
		result = `{"protocolVersion":` + m.Get("params.protocolVersion").Raw + `,"capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`
	case method == "tools/list":
		result = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"events","inputSchema":{"type":"object"}}]}`
	case tool == "echo":
		result = `{"content":[{"type":"text","text":` + arguments.Get("text").Raw + `}]}`
	case tool == "events":
		message := strings.Repeat("x", int(arguments.Get("size").Int()))
		for n := range arguments.Get("n").Int() {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":"%s"}}`+"\n",
				m.Get("params._meta.progressToken").Raw, n+1, message)
		}
		result = `{"content":[{"type":"text","text":"done"}]}`
	}
	fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id.Raw, result)
}
