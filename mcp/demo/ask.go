package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type askInput struct {
	Question string `json:"question" jsonschema:"what to ask the person at the client"`
}

func addAsk(server *sdk.Server) {
	tool(server, &sdk.Tool{
		Name:        "ask",
		Description: "Asks the person at the client a question (elicitation) and answers with what they said.",
		// What a person says is not of this server's world.
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(true)},
	}, ask)
}

func ask(ctx context.Context, req *sdk.CallToolRequest, in askInput) (string, error) {
	if strings.TrimSpace(in.Question) == "" {
		return "", errors.New("question must not be empty")
	}
	if c := req.ClientCapabilities(); c == nil || c.Elicitation == nil {
		return "", errors.New("this client can't ask a person: it has not announced the capability elicitation")
	}
	answer, err := req.Session.Elicit(ctx, &sdk.ElicitParams{
		Message: in.Question,
		RequestedSchema: map[string]any{
			"type":       "object",
			"properties": map[string]any{"answer": map[string]any{"type": "string", "title": "Answer"}},
			"required":   []string{"answer"},
		},
	})
	if err != nil {
		return "", fmt.Errorf("asking the person failed: %w", err)
	}
	switch answer.Action {
	case "accept":
		return fmt.Sprint(answer.Content["answer"]), nil
	case "decline":
		return "The person declined to answer.", nil
	case "cancel":
		return "The person closed the question without an answer.", nil
	}
	return "", fmt.Errorf("the client answered with the unknown action %q", answer.Action)
}
