package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// A call that a host was running when it was killed, and whose place a host with other
// code has taken, was lost to the update; with the same code, to a restart.
func TestACallIsLostToAnUpdate(t *testing.T) {
	for version, reason := range map[string]string{"1": "restart", "2": "code_updated"} {
		t.Run(reason, func(t *testing.T) {
			dir := t.TempDir()
			open := func() storage.Store {
				s, err := pebble.Open(pebble.Options{Dir: dir, Durability: storage.Relaxed})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			}
			is := "1"
			w := &world{hostTuned: func(o *actor.Options) { o.Version, o.Store = is, open() }}
			w.begin(t)
			c := w.open1()
			l := c.post(call("1", "hang"))
			l.until("its first event", func() bool { return len(l.frames) > 0 })
			w.within(5*time.Second, "the call to be delivered", func() bool { return w.saw("hang") == 1 })
			killed := w.host
			killed.Store().Close() // nothing more of it is written
			w.shutdown()
			is = version
			w.boot()
			got := c.get(l.frames[0].ID).wait().text()
			if !strings.Contains(got, "-32010") || !strings.Contains(got, `"reason":"`+reason+`"`) {
				t.Errorf("it was told %s", got)
			}
			w.within(5*time.Second, "the runtime of the first is gone", func() bool { _, open := w.runtimes(); return open == 0 })
		})
	}
}
