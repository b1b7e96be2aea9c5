package actor_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// Whatever is wrong with a part of an operation, all of it is refused: with an error
// that names the object, the operation and what is wrong, without a panic, and without
// a trace of the parts that were right, before it and behind it.
func TestBadInputIsRefusedAsAWhole(t *testing.T) {
	long := strings.Repeat("k", actor.MaxKey+1)
	many := func() map[string][]byte {
		m := map[string][]byte{}
		for n := range actor.MaxKeys + 1 {
			m[fmt.Sprint("m", n)] = []byte("v")
		}
		return m
	}
	among := func(key string, value []byte) map[string][]byte {
		return map[string][]byte{"a": []byte("new"), key: value, "z": []byte("new")}
	}
	list := func(s *actor.State, r storage.Range) error {
		for _, err := range s.List(r) {
			return err
		}
		return nil
	}
	big := make([]byte, actor.MaxValue+1)
	for name, tc := range map[string]struct {
		op   string
		want error
		do   func(s *actor.State) error
	}{
		"put an empty key":            {"put", actor.ErrKey, func(s *actor.State) error { return s.Put("", nil) }},
		"put a long key":              {"put", actor.ErrKey, func(s *actor.State) error { return s.Put(long, nil) }},
		"put a reserved key":          {"put", actor.ErrKey, func(s *actor.State) error { return s.Put("\x00a", nil) }},
		"put a large value":           {"put", actor.ErrTooLarge, func(s *actor.State) error { return s.Put("a", big) }},
		"an empty key among many":     {"put", actor.ErrKey, func(s *actor.State) error { return s.PutMany(among("", nil)) }},
		"a long key among many":       {"put", actor.ErrKey, func(s *actor.State) error { return s.PutMany(among(long, nil)) }},
		"a reserved key among many":   {"put", actor.ErrKey, func(s *actor.State) error { return s.PutMany(among("\x00call/1", nil)) }},
		"a large value among many":    {"put", actor.ErrTooLarge, func(s *actor.State) error { return s.PutMany(among("m", big)) }},
		"put too many":                {"put", actor.ErrTooManyKeys, func(s *actor.State) error { return s.PutMany(many()) }},
		"delete a bad key among many": {"delete", actor.ErrKey, func(s *actor.State) error { return s.Delete("a", "", "z") }},
		"delete a long key":           {"delete", actor.ErrKey, func(s *actor.State) error { return s.Delete("a", long, "z") }},
		"delete a reserved key":       {"delete", actor.ErrKey, func(s *actor.State) error { return s.Delete("a", alarm.Prefix, "z") }},
		"delete too many": {"delete", actor.ErrTooManyKeys, func(s *actor.State) error {
			keys := []string{"a"}
			for k := range maps.Keys(many()) {
				keys = append(keys, k)
			}
			return s.Delete(keys...)
		}},
		"get an empty key":     {"get", actor.ErrKey, func(s *actor.State) error { _, err := s.Get(""); return err }},
		"get a bad key":        {"get", actor.ErrKey, func(s *actor.State) error { _, err := s.GetMany("a", long); return err }},
		"list from two ends":   {"list", actor.ErrRange, func(s *actor.State) error { return list(s, storage.Range{Start: "a", After: "b"}) }},
		"list fewer than none": {"list", actor.ErrRange, func(s *actor.State) error { return list(s, storage.Range{Limit: -1}) }},
		"an alarm at no time":  {"set alarm", alarm.ErrTime, func(s *actor.State) error { return s.SetAlarm(time.Time{}) }},
		"an alarm before 1970": {"set alarm", alarm.ErrTime, func(s *actor.State) error { return s.SetAlarm(time.Unix(-1, 0)) }},
		"an alarm after 9999":  {"set alarm", alarm.ErrTime, func(s *actor.State) error { return s.SetAlarm(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) }},
		"a negative charge":    {"charge", nil, func(s *actor.State) error { _, err := s.Charge(-1); return err }},
		"more than a commit can be": {"put", actor.ErrTooLarge, func(s *actor.State) error {
			rows := map[string][]byte{}
			for n := range 32 {
				rows[fmt.Sprint("big", n)] = big[:actor.MaxValue]
			}
			return s.PutMany(rows)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, actor.Options{})
			l.must("o", func(_ context.Context, s *actor.State) error {
				return errors.Join(s.PutMany(map[string][]byte{"a": []byte("old"), "z": []byte("old")}), s.SetAlarm(time.Now().Add(time.Hour)))
			})
			epoch := l.Epoch(thingID("o"))
			l.must("o", func(_ context.Context, s *actor.State) error {
				before, err := s.Alarm()
				if err != nil {
					return err
				}
				if err := s.Put("b", []byte("before")); err != nil {
					return err
				}
				err = tc.do(s)
				var e *actor.Error
				if !errors.As(err, &e) || tc.want != nil && !errors.Is(err, tc.want) || e.ID != thingID("o") || e.Op != tc.op || e.Epoch != epoch || e.Reset() {
					t.Errorf("got %v (%+v)", err, e)
				}
				if after, err := s.Alarm(); err != nil || !after.Equal(before) {
					t.Errorf("the alarm is %v, and was %v: %v", after, before, err)
				}
				return s.Put("y", []byte("behind"))
			})
			l.has("o", "a=old b=before y=behind z=old ")
			if l.Epoch(thingID("o")) != epoch {
				t.Error("the object was reset")
			}
		})
	}
}

// Addresses that can't be are refused before anything is started for them.
func TestBadAddressesAreRefused(t *testing.T) {
	l := newLab(t, actor.Options{})
	for name, id := range map[string]storage.ID{
		"no such class": {Class: "nothing", Name: "a"},
		"no name":       {Class: "thing"},
		"a zero byte":   {Class: "thing", Name: "a\x00b"},
		"a long name":   {Class: "thing", Name: strings.Repeat("n", storage.MaxName+1)},
		"not UTF-8":     {Class: "thing", Name: "\xff"},
	} {
		failed := make(chan error, 1)
		err := l.Send(id, "an event", func(err error) { failed <- err })
		if err == nil {
			select {
			case err = <-failed:
			case <-time.After(10 * time.Second):
			}
		}
		var e *actor.Error
		if !errors.As(err, &e) || e.ID != id || e.Op == "" {
			t.Errorf("%s: got %v", name, err)
		}
		if l.Active(id) {
			t.Errorf("%s: it is active", name)
		}
	}
}
