package actor_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

func (l lab) export(name string) string {
	l.Helper()
	var w bytes.Buffer
	if err := l.Export(l.Context(), thingID(name), &w); err != nil {
		l.Fatal(err)
	}
	return w.String()
}

func TestAnObjectMovesFromOneHostToAnother(t *testing.T) {
	here, there := newLab(t, actor.Options{EvictAfter: -1}), newLab(t, actor.Options{})
	here.must("a", func(_ context.Context, s *actor.State) error {
		must(t, s.Put("n", []byte("12")), s.Put("\xff", []byte{0, 0xff}))
		_, err := nothing.In(s, time.Hour, 0, alarm.WithID("one"))
		return err
	})
	text := here.export("a")
	if _, err := there.Import(t.Context(), strings.NewReader(text), false); err != nil {
		t.Fatal(err)
	}
	if there.Active(thingID("a")) {
		t.Error("the import has woken it")
	}
	if again := there.export("a"); again != text {
		t.Errorf("exported are\n%s, and at rest\n%s", text, again)
	}
	if there.Active(thingID("a")) {
		t.Error("the export has woken it")
	}
	there.has("a", "n=12 \xff=\x00\xff ")
	there.must("a", func(_ context.Context, s *actor.State) error {
		if e, ok, err := s.Schedule().Get("one"); !ok || err != nil || time.Until(e.Next) < time.Minute {
			t.Errorf("the schedule is %+v %v", e, err)
		}
		return nil
	})
}

func TestExportsSayWhatIsMissing(t *testing.T) {
	l := newLab(t, actor.Options{})
	for _, name := range []string{"at rest", "in memory"} {
		if name == "in memory" {
			l.must(name, func(context.Context, *actor.State) error { return nil })
		}
		err := l.Export(t.Context(), thingID(name), &bytes.Buffer{})
		var e *actor.Error
		if !errors.Is(err, storage.ErrNoObject) || !errors.As(err, &e) || e.ID != thingID(name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", strings.Replace(object("a"), "thing", "nobody", 1)} {
		_, err := l.Import(t.Context(), strings.NewReader(text), false)
		var e *actor.Error
		if !errors.As(err, &e) || e.Op != "import" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func object(name string) string {
	return `{"kalpa":"object","version":1,"class":"thing","name":"` + name + `"}` + "\n" + `{"key":"n","value":"imported"}` + "\n" + `{"end":true,"rows":1}` + "\n"
}

func TestAnImportReplacesAnObjectOnlyWhenItIsToldTo(t *testing.T) {
	l := newLab(t, actor.Options{})
	l.must("a", func(_ context.Context, s *actor.State) error { return s.Put("old", []byte("1")) })
	if _, err := l.Import(t.Context(), strings.NewReader(object("a")), false); !errors.Is(err, storage.ErrExists) {
		t.Fatalf("got %v", err)
	}
	l.has("a", "old=1 ")
	inside := make(chan struct{})
	busy := l.begin("a", func(ctx context.Context, s *actor.State) error {
		close(inside)
		return s.Await(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
	})
	<-inside
	if _, err := l.Import(t.Context(), strings.NewReader(object("a")), true); err != nil {
		t.Fatal(err)
	}
	if err := <-busy; actor.CauseOf(err) != actor.Aborted || !strings.Contains(err.Error(), "replaced by an import") {
		t.Errorf("got %v", err)
	}
	l.has("a", "n=imported ")
}

func TestWhatIsSentDuringAnImportWaits(t *testing.T) {
	mem := storage.NewMemory()
	defer mem.Close()
	slow := &slowStore{Store: mem, hold: make(chan struct{})}
	l := newLab(t, actor.Options{Store: slow})
	imported := make(chan error, 1)
	go func() {
		_, err := l.Import(context.Background(), strings.NewReader(object("a")), false)
		imported <- err
	}()
	for !l.Active(thingID("a")) {
		time.Sleep(time.Millisecond)
	}
	saw := make(chan string, 1)
	called := l.begin("a", func(_ context.Context, s *actor.State) error {
		text, err := rows(s, storage.Range{})
		saw <- text
		return err
	})
	time.Sleep(settle)
	if len(saw) > 0 {
		t.Error("the object has been woken in the middle of its import")
	}
	close(slow.hold)
	must(t, <-imported, <-called)
	if text := <-saw; text != "n=imported " {
		t.Errorf("it saw %q", text)
	}
}
