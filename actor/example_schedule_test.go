package actor_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// A trial account: it is reminded once, reports each morning, and closes when
// nobody has used it for 30 days.
type trial struct {
	state *actor.State
	used  time.Time
}

var (
	trials = actor.Define("trial", func(_ context.Context, s *actor.State) (*trial, error) {
		t := &trial{state: s}
		v, err := s.Get("used")
		if err != nil {
			return nil, err
		}
		if v != nil {
			if err := t.used.UnmarshalText(v); err != nil {
				return nil, err
			}
		}
		// A deadline of its own. It belongs here: an alarm wakes an object that has done
		// no more than this.
		s.Schedule().AddSource("unused", func(time.Time) time.Time {
			if t.used.IsZero() {
				return time.Time{} // none
			}
			return t.used.Add(30 * 24 * time.Hour)
		})
		return t, nil
	})

	remind = actor.Callback(trials, "remind", func(t *trial, _ context.Context, whom string) error {
		fmt.Println("reminded", whom)
		return nil
	})
	report = actor.Callback(trials, "report", func(t *trial, ctx context.Context, to string) error {
		return t.state.Await(ctx, func(ctx context.Context) error {
			return nil // send it; others of the object's events may run meanwhile
		})
	})

	begin = actor.Method(trials, "begin", func(t *trial, _ context.Context, whom string) (int, error) {
		t.used = time.Now()
		used, err := t.used.MarshalText()
		if err != nil {
			return 0, err
		}
		if err := t.state.Put("used", used); err != nil {
			return 0, err
		}
		if _, err := remind.In(t.state, 10*time.Millisecond, whom, alarm.WithRetry(5, time.Minute)); err != nil {
			return 0, err
		}
		// Safe to repeat: the same schedule again is the one that is there.
		if _, err := report.Cron(t.state, "0 9 * * MON-FRI", whom, alarm.InZone("Europe/Berlin")); err != nil {
			return 0, err
		}
		all, err := t.state.Schedule().List()
		return len(all), err
	})
)

// Alarm is called when the source is due.
func (t *trial) Alarm(context.Context, alarm.Info) error { return t.state.Schedule().Destroy() }

func Example_schedule() {
	store := storage.NewMemory()
	defer store.Close()
	host, err := actor.NewHost(actor.Options{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	trials.Register(host)
	if err := host.Start(); err != nil {
		log.Fatal(err)
	}
	defer host.Shutdown(context.Background())

	account := host.Stub(storage.ID{Class: "trial", Name: "ada"})
	n, err := begin.Do(context.Background(), account, "Ada")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "schedules")
	time.Sleep(300 * time.Millisecond)
	// Output:
	// 2 schedules
	// reminded Ada
}
