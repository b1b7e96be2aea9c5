// Command plugin is a kalpa host with a server of its own: it takes notes, and each
// session keeps its notes for as long as it lives.
//
//	go run ./examples/plugin serve --plugin notes
package main

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kalpahost/kalpa"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/gosdk"
)

type note struct {
	Text string `json:"text" jsonschema:"what to remember"`
}

type notes struct {
	Notes []note `json:"notes"`
}

// addNote keeps a note and answers with all of them. What State keeps survives the
// runtime, the process and the machine.
func addNote(ctx context.Context, _ *sdk.CallToolRequest, in note) (_ *sdk.CallToolResult, all notes, err error) {
	err = gosdk.SessionFrom(ctx).State().Update(ctx, "notes", func(old []byte) ([]byte, error) {
		if old != nil {
			if err := json.Unmarshal(old, &all); err != nil {
				return nil, err
			}
		}
		all.Notes = append(all.Notes, in)
		return json.Marshal(all)
	})
	return nil, all, err
}

func listNotes(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, notes, error) {
	all := notes{Notes: []note{}}
	kept, err := gosdk.SessionFrom(ctx).State().Get(ctx, "notes")
	if err == nil && kept != nil {
		err = json.Unmarshal(kept, &all)
	}
	return nil, all, err
}

func plugin() mcp.Plugin {
	server := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "add_note", Description: "Keeps a note."}, addNote)
	sdk.AddTool(server, &sdk.Tool{Name: "list_notes", Description: "Lists the notes."}, listNotes)
	return gosdk.Plugin(func(context.Context, mcp.Session) (*sdk.Server, error) { return server, nil })
}

func main() {
	mcp.Register("notes", plugin())
	kalpa.Main()
}
