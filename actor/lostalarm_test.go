package actor_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// movedStore answers the first read of an alarm row late, and as if the alarm had
// been moved meanwhile.
type movedStore struct {
	storage.Store
	first          sync.Once
	asked, release chan struct{}
}

func (s *movedStore) Alarm(ctx context.Context, id storage.ID) (storage.Alarm, error) {
	moved := false
	s.first.Do(func() {
		close(s.asked)
		<-s.release
		moved = true
	})
	if moved {
		return storage.Alarm{At: time.Now().Add(time.Hour)}, nil
	}
	return s.Store.Alarm(ctx, id)
}

// An alarm is fired into an incarnation that is reset before it has looked at its
// row. The dispatcher must hear of it, or it would wait for that alarm for ever.
func TestAlarmOfAnIncarnationThatIsResetFirstFiresAgainI6(t *testing.T) {
	ch := make(chan alarm.Info, 1)
	alarms.Store("moved", ch)
	defer alarms.Delete("moved")
	memory := storage.NewMemory()
	defer memory.Close()
	epoch, err := storage.Claim(t.Context(), memory, id("moved"))
	if err != nil {
		t.Fatal(err)
	}
	due := storage.Alarm{At: time.Now().Add(-time.Minute)}
	if err := storage.Commit(t.Context(), memory, &storage.Batch{ID: id("moved"), Epoch: epoch, Alarm: &due}); err != nil {
		t.Fatal(err)
	}
	s := &movedStore{Store: memory, asked: make(chan struct{}), release: make(chan struct{})}
	h := start(t, actor.Options{Store: s})
	<-s.asked
	h.Reset(id("moved"), actor.Aborted, nil)
	close(s.release)
	select {
	case <-ch:
	case <-time.After(20 * time.Second):
		t.Fatal("the alarm did not fire again")
	}
}
