package gosdktest

import (
	"context"
	"sync"
)

// State is an mcp.State in memory. The zero State is empty.
type State struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (s *State) Get(ctx context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key], ctx.Err()
}

func (s *State) Put(ctx context.Context, key string, value []byte) error {
	return s.Update(ctx, key, func([]byte) ([]byte, error) { return value, nil })
}

func (s *State) Delete(ctx context.Context, key string) error {
	return s.Update(ctx, key, func([]byte) ([]byte, error) { return nil, nil })
}

func (s *State) Update(ctx context.Context, key string, f func(old []byte) ([]byte, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	value, err := f(s.values[key])
	switch {
	case err != nil:
		return err
	case value == nil:
		delete(s.values, key)
	default:
		if s.values == nil {
			s.values = map[string][]byte{}
		}
		s.values[key] = value
	}
	return nil
}
