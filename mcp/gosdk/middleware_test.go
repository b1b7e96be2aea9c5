package gosdk

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestOnlyAServerThatNobodyUsesLearnsTheShortWay(t *testing.T) {
	impl := &sdk.Implementation{Name: "test", Version: "1"}
	idle := sdk.NewServer(impl, nil)
	for range 2 {
		if !prepare(idle) {
			t.Error("a server without sessions does not learn it")
		}
	}
	busy := sdk.NewServer(impl, nil)
	transport, _ := sdk.NewInMemoryTransports()
	ss, err := busy.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	if prepare(busy) {
		t.Error("a server with a session learns it")
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	if prepare(busy) {
		t.Error("it has learnt it since")
	}
}
