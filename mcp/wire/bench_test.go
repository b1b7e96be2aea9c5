package wire

import (
	"strings"
	"testing"
)

// BenchmarkParse measures what a message costs to read, of which there are three kinds: a
// call, its short answer, and one that carries a text of 16 KiB.
func BenchmarkParse(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"call", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"7"}}}`},
		{"answer", `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"7"}]}}`},
		{"text", `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"` + strings.Repeat(`A line of text.\n`, 1024) + `"}]}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := []byte(c.text)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := ParseBody(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
