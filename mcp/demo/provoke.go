package demo

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// memory is what alloc keeps.
type memory struct {
	mu   sync.Mutex
	kept []block
}

type block struct {
	bytes   []byte
	release func()
}

const maxAlloc = 4096 // MiB in one call

type allocInput struct {
	MiB int `json:"mib" jsonschema:"how much memory to keep, in MiB, 1 to 4096"`
}

func addAlloc(server *sdk.Server) {
	tool(server, &sdk.Tool{
		Name: "alloc", Annotations: changes(false),
		Description: "Keeps memory, charged to the isolate that this session shares with others, until free or until the runtime is disposed of.",
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in allocInput) (string, error) {
		if err := between("mib", in.MiB, 1, maxAlloc); err != nil {
			return "", err
		}
		s := sessionFrom(ctx)
		size := int64(in.MiB) << 20
		release, err := s.Charge(size)
		if err != nil {
			return "", fmt.Errorf("%d MiB are refused: %w", in.MiB, err)
		}
		b := make([]byte, size)
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1 // or the system would not give the page
		}
		return fmt.Sprintf("keeping %d MiB", s.memory.keep(block{b, release})>>20), nil
	})
}

func (m *memory) keep(b block) (total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = append(m.kept, b)
	for _, b := range m.kept {
		total += len(b.bytes)
	}
	return total
}

func (m *memory) free() (total int) {
	m.mu.Lock()
	kept := m.kept
	m.kept = nil
	m.mu.Unlock()
	for _, b := range kept {
		total += len(b.bytes)
		b.release()
	}
	return total
}

func addFree(server *sdk.Server) {
	tool(server, &sdk.Tool{
		Name: "free", Annotations: changes(true), Description: "Gives back what alloc keeps.",
	}, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (string, error) {
		return fmt.Sprintf("freed %d MiB", sessionFrom(ctx).memory.free()>>20), nil
	})
}

const maxSpin = 60 * 1000 // ms

type spinInput struct {
	MS int `json:"ms" jsonschema:"how long, in milliseconds, at most 60000"`
}

func addSpin(server *sdk.Server) {
	tool(server, &sdk.Tool{
		Name: "spin", Annotations: reads(),
		Description: "Burns a processor. It does not notice that it is cancelled: it is there to provoke what a runaway handler does.",
	}, func(_ context.Context, _ *sdk.CallToolRequest, in spinInput) (string, error) {
		if err := between("ms", in.MS, 0, maxSpin); err != nil {
			return "", err
		}
		x := uint64(1)
		for end := time.Now().Add(time.Duration(in.MS) * time.Millisecond); time.Now().Before(end); {
			for range 1000 {
				x = x*6364136223846793005 + 1442695040888963407
			}
		}
		return fmt.Sprintf("spun %d ms (%x)", in.MS, x&0xf), nil
	})
}
