package session

import (
	"fmt"
	"testing"
)

// What says nothing new is not stored again: the last use of a session is once a second,
// and the row of a stream not with its events.
func TestWhatSaysNothingNewIsNotStored(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(activityGrain)
	keys := func() (all []string) {
		for _, p := range b.out.puts {
			all = append(all, p.Key)
		}
		return all
	}
	b.post("a", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"t"}}}`)
	if b.put("act") == "" || b.put("q/pa/") == "" || b.put("s/pa") == "" {
		t.Errorf("a call a second after the last use stores %q", keys())
	}
	b.do(fromRuntime{gen: 1, msg: mustParse(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`, b.rt.next))})
	if b.put("e/pa/") == "" || b.put("s/pa") != "" {
		t.Errorf("a notification stores %q", keys())
	}
	b.answer(1, b.rt.next, `{}`)
	if b.put("act") != "" || b.put("e/pa/") == "" || b.put("s/pa") != "" {
		t.Errorf("its answer stores %q", keys())
	}
	b.call("b", "2")
	if b.put("act") != "" {
		t.Errorf("another call within that second stores %q", keys())
	}
}
