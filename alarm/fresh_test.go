package alarm

import (
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// unread are the rows of an owner, which count how often they are listed.
type unread struct {
	ownerOf
	listed *int
}

func (u unread) Turn() (Rows, error) { return countedRows{turn{u.o}, u.listed}, nil }

type countedRows struct {
	Rows
	listed *int
}

func (r countedRows) List(of storage.Range) iter.Seq2[storage.Entry, error] {
	*r.listed++
	return r.Rows.List(of)
}

func TestTheRowsOfAFreshObjectAreNotRead(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		o, listed := newOwner(t), 0
		k := NewKeeper(KeeperOptions{
			ID: storage.ID{Class: "test", Name: "object"}, Epoch: 7, Owner: unread{ownerOf{o}, &listed},
			Fresh: fresh, Logger: slog.New(slog.DiscardHandler),
		})
		at := monday.Add(time.Minute)
		if _, err := k.Schedule().At(at, "f", nil); err != nil {
			t.Fatal(err)
		}
		if a, err := k.Derive(storage.Alarm{}); err != nil || !a.At.Equal(at) {
			t.Errorf("fresh %v: the alarm is %v, %v", fresh, a.At, err)
		}
		if (listed == 0) != fresh {
			t.Errorf("fresh %v: its rows were listed %d times", fresh, listed)
		}
		k.Reload() // what it wrote was taken back, or was not: only the rows know
		if _, err := k.Derive(storage.Alarm{}); err != nil || listed == 0 {
			t.Errorf("fresh %v: after a rollback its rows were listed %d times, %v", fresh, listed, err)
		}
	}
}
