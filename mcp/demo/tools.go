package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoInput struct {
	Text string `json:"text" jsonschema:"what to say back"`
}

func addEcho(server *sdk.Server) {
	tool(server, &sdk.Tool{Name: "echo", Description: "Says back what it is told.", Annotations: reads()},
		func(_ context.Context, _ *sdk.CallToolRequest, in echoInput) (string, error) { return in.Text, nil })
}

type addInput struct {
	A float64 `json:"a" jsonschema:"a number"`
	B float64 `json:"b" jsonschema:"the number to add to it"`
}

func addAdd(server *sdk.Server) {
	tool(server, &sdk.Tool{Name: "add", Description: "Adds two numbers.", Annotations: reads()},
		func(_ context.Context, _ *sdk.CallToolRequest, in addInput) (string, error) {
			sum := in.A + in.B
			if math.IsInf(sum, 0) || math.IsNaN(sum) {
				return "", errors.New("the sum is too large")
			}
			b, err := json.Marshal(sum)
			return string(b), err
		})
}

// counterKey is where incr counts in the session's State: a decimal number.
const counterKey = "demo/counter"

func addIncr(server *sdk.Server) {
	tool(server, &sdk.Tool{
		Name: "incr", Annotations: changes(false),
		Description: "Counts one up and answers the number. It belongs to the session and survives restarts and resets.",
	}, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (string, error) {
		var text string
		err := sessionFrom(ctx).State().Update(ctx, counterKey, func(old []byte) ([]byte, error) {
			n := int64(0)
			if old != nil {
				var err error
				if n, err = strconv.ParseInt(string(old), 10, 64); err != nil {
					return nil, fmt.Errorf("the counter is damaged: %w", err)
				}
			}
			text = strconv.FormatInt(n+1, 10)
			return []byte(text), nil
		})
		return text, err
	})
}

const (
	maxSleep = 10 * 60 * 1000 // ms
	maxSteps = 1000
)

type sleepInput struct {
	MS    int  `json:"ms" jsonschema:"how long, in milliseconds, at most 600000"`
	Steps *int `json:"steps,omitempty" jsonschema:"how many progress reports to send meanwhile, 1 to 1000; 1 when left out"`
}

func addSleep(server *sdk.Server) {
	tool(server, &sdk.Tool{
		Name: "sleep", Annotations: reads(),
		Description: "Takes its time, and reports progress when the client asks for it. Can be cancelled.",
	}, func(ctx context.Context, req *sdk.CallToolRequest, in sleepInput) (string, error) {
		steps := 1
		if in.Steps != nil {
			steps = *in.Steps
		}
		if err := errors.Join(between("ms", in.MS, 0, maxSleep), between("steps", steps, 1, maxSteps)); err != nil {
			return "", err
		}
		total, start := time.Duration(in.MS)*time.Millisecond, time.Now()
		token := req.Params.GetProgressToken()
		for i := 1; i <= steps; i++ {
			if err := sleep(ctx, time.Until(start.Add(total*time.Duration(i)/time.Duration(steps)))); err != nil {
				return "", err
			}
			if token == nil {
				continue
			}
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(i), Total: float64(steps), Message: fmt.Sprintf("step %d of %d", i, steps),
			})
			if err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("slept %d ms", in.MS), nil
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func addFail(server *sdk.Server) {
	tool(server, &sdk.Tool{Name: "fail", Description: "Fails, always.", Annotations: reads()},
		func(context.Context, *sdk.CallToolRequest, none) (string, error) {
			return "", errors.New("this tool always fails: that is what it is for")
		})
}
