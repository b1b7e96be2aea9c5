// Package gosdktest plays the host for a plugin under test: one session, one client,
// everything in memory.
//
//	h := gosdktest.Start(t, notes.Plugin(), gosdktest.Options{})
//	if got := h.Call("add", map[string]any{"text": "milk"}); got.Text() != "1 note" {
//		t.Errorf("add: %s", got)
//	}
//
// [Start] builds a runtime and sends the handshake, as the host does. Two runtimes
// that are started one after the other with the same [State] are one session that
// was idle in between. It works for every [mcp.Plugin], whatever it is made with.
package gosdktest
