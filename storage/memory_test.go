package storage_test

import (
	"testing"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storage.Store { return storage.NewMemory() })
}

type memoryWorld struct{}

func (memoryWorld) Open() storage.Store                { return storage.NewMemory() }
func (memoryWorld) Reopen(storage.Store) storage.Store { return nil }

func TestMemoryModel(t *testing.T) {
	storetest.Model(t, func() storetest.World { return memoryWorld{} })
}
