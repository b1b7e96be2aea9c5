package storage_test

import (
	"testing"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storage.Store { return storage.NewMemory() })
}
