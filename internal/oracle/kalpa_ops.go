package oracle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

type perform func(ctx context.Context, o *thing, op Op, r *run) (result string, err error)

// ops are what a kalpa object can do. A program with others is pending.
var ops = map[string]perform{}

func init() { // the ops with a body refer to all of them
	maps.Copy(ops, map[string]perform{
		"put": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			if !op.Pairs {
				return "", o.s.Put(op.Args[0], []byte(op.Args[1]))
			}
			rows := map[string][]byte{}
			for i := 0; i+1 < len(op.Args); i += 2 {
				rows[op.Args[i]] = []byte(op.Args[i+1])
			}
			return "", o.s.PutMany(rows)
		},
		"get": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			v, err := o.s.Get(op.Args[0])
			if v == nil {
				return "undefined", err
			}
			return word(string(v)), err
		},
		"getMany": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			found, err := o.s.GetMany(op.Args...)
			return shown(found), err
		},
		// Deleting does not say whether there was something: who wants to know reads first.
		"delete": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			v, err := o.s.Get(op.Args[0])
			return strconv.FormatBool(v != nil), errors.Join(err, o.s.Delete(op.Args[0]))
		},
		"deleteMany": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			found, err := o.s.GetMany(op.Args...)
			return strconv.Itoa(len(found)), errors.Join(err, o.s.Delete(op.Args...))
		},
		"list":     list,
		"countAll": func(_ context.Context, o *thing, _ Op, _ *run) (string, error) { return o.countAll() },
		"putCount": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			rows := map[string][]byte{}
			for _, k := range keys(op.Args[0]) {
				rows[k] = []byte("v")
			}
			return "", o.s.PutMany(rows)
		},
		"getCount": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			found, err := o.s.GetMany(keys(op.Args[0])...)
			return fmt.Sprintf("%d found", len(found)), err
		},
		"deleteCount": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			found, err := o.s.GetMany(keys(op.Args[0])...)
			return fmt.Sprintf("%d deleted", len(found)), errors.Join(err, o.s.Delete(keys(op.Args[0])...))
		},
		"deleteAll": func(_ context.Context, o *thing, _ Op, _ *run) (string, error) { return "", o.s.DeleteAll() },
		"sync":      func(ctx context.Context, o *thing, _ Op, _ *run) (string, error) { return "", o.s.Sync(ctx) },

		"transaction": func(ctx context.Context, o *thing, op Op, r *run) (string, error) {
			inner := *r
			return "", o.s.Transaction(ctx, func(ctx context.Context) error {
				err := o.all(ctx, op.Body, &inner)
				if inner.rolledBack {
					return actor.ErrRollback
				}
				return err
			})
		},
		"rollback": func(_ context.Context, _ *thing, _ Op, r *run) (string, error) { r.rolledBack = true; return "", nil },
		// An object has one storage: there is nothing past the transaction.
		"outer": func(ctx context.Context, o *thing, op Op, r *run) (string, error) { return "", o.all(ctx, op.Body, r) },

		"setAlarm": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			at, err := o.at(op.Args[0])
			if err != nil {
				return "", err
			}
			return "", o.s.SetAlarm(at)
		},
		"getAlarm": func(_ context.Context, o *thing, _ Op, _ *run) (string, error) {
			at, err := o.s.Alarm()
			if at.IsZero() {
				return "null", err
			}
			return o.ahead(at), err
		},
		"deleteAlarm": func(_ context.Context, o *thing, _ Op, _ *run) (string, error) { return "", o.s.DeleteAlarm() },
		"info": func(_ context.Context, o *thing, _ Op, r *run) (string, error) {
			return "scheduled " + o.ahead(r.info.Scheduled), nil
		},

		"block": func(ctx context.Context, o *thing, op Op, r *run) (string, error) {
			return "", o.s.Critical(ctx, func(ctx context.Context) error { return o.all(ctx, op.Body, r) })
		},
		"abort": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			var reason error
			if len(op.Args) > 0 {
				reason = errors.New(op.Args[0])
			}
			o.s.Abort(reason)
			return "", errAborted
		},
		"throw": func(_ context.Context, _ *thing, op Op, _ *run) (string, error) { return "", errors.New(op.Args[0]) },
		"catch": func(ctx context.Context, o *thing, op Op, r *run) (string, error) {
			if err := o.all(ctx, op.Body, r); err != nil && !o.gone(ctx) {
				return "caught " + describe(err), nil
			}
			return "nothing to catch", nil
		},
		"remember": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			o.memory = op.Args[0]
			return "", nil
		},
		"recall": func(_ context.Context, o *thing, _ Op, _ *run) (string, error) { return o.memory, nil },
		"note":   func(context.Context, *thing, Op, *run) (string, error) { return "", nil },
		"wait": func(ctx context.Context, o *thing, op Op, _ *run) (string, error) {
			return "", o.s.Await(ctx, func(ctx context.Context) error { return o.l.w.points.Wait(ctx, op.Args[0]) })
		},
		"waitUntil": func(_ context.Context, o *thing, op Op, r *run) (string, error) {
			inner := *r
			inner.label += " background"
			return "", o.s.WaitUntil(func(ctx context.Context) error {
				err := o.all(ctx, op.Body, &inner)
				if err != nil && !o.gone(ctx) {
					o.say("%s failed %s", inner.label, describe(err))
				}
				return err
			})
		},

		"call": func(ctx context.Context, o *thing, op Op, r *run) (string, error) {
			_, err := o.l.run.Do(ctx, o.stub(op.Args[0]), o.of(r, op.Args[0], "", op.Body))
			return "", err
		},
		"callTwice": func(ctx context.Context, o *thing, op Op, r *run) (string, error) {
			stub := o.stub(op.Args[0])
			for _, n := range []string{"1", "2"} {
				_, err := o.l.run.Do(ctx, stub, o.of(r, op.Args[0], " "+n, op.Body))
				if err != nil {
					o.say("%s call %s ! %s", r.label, n, describe(err))
				} else {
					o.say("%s call %s = ok", r.label, n)
				}
			}
			return "", nil
		},
		"callAll": func(ctx context.Context, o *thing, op Op, r *run) (string, error) {
			stub := o.stub(op.Args[0])
			var calls []*actor.Pending[struct{}]
			for i, sub := range op.Body {
				calls = append(calls, o.l.run.Start(ctx, stub, o.of(r, op.Args[0], " "+strconv.Itoa(i+1), []Op{sub})))
			}
			var results []string
			for _, call := range calls {
				if _, err := call.Wait(ctx); err != nil {
					results = append(results, describe(err))
				} else {
					results = append(results, "ok")
				}
			}
			return strings.Join(results, ", "), nil
		},
		"callId": func(ctx context.Context, o *thing, op Op, r *run) (string, error) {
			id, err := o.ident(op.Args[0])
			if err != nil {
				return "", err
			}
			_, err = o.l.run.Do(ctx, o.l.host.Stub(id), o.of(r, op.Args[0], "", op.Body))
			return "", err
		},

		"id": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			id, err := o.ident(op.Args[0])
			switch {
			case err != nil:
				return "", err
			case digits.MatchString(id.Name):
				return "64 hex digits, name undefined", nil
			default:
				return fmt.Sprintf("%s, name %s", id, strconv.Quote(id.Name)), nil
			}
		},
		"name": func(_ context.Context, o *thing, _ Op, _ *run) (string, error) {
			if digits.MatchString(o.s.ID().Name) {
				return "undefined", nil
			}
			return strconv.Quote(o.s.ID().Name), nil
		},
		"same": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			a, err := o.ident(op.Args[0])
			b, err2 := o.ident(op.Args[1])
			return fmt.Sprintf("equals %t, text %t", a == b, a.String() == b.String()), errors.Join(err, err2)
		},
		"parse": func(_ context.Context, o *thing, op Op, _ *run) (string, error) {
			_, err := actor.ParseID(o.l.class.Name(), op.Args[0])
			return "ok", err
		},
	})
}

var errAborted = errors.New("aborted")

var digits = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Unsupported are the program's steps and ops that kalpa has nothing for.
func Unsupported(p *Program) []string {
	missing := map[string]bool{}
	var look func([]Op)
	look = func(all []Op) {
		for _, op := range all {
			if ops[op.Name] == nil {
				missing[op.Name] = true
			}
			look(op.Body)
		}
	}
	for _, o := range p.Objects {
		for _, h := range o.Handlers {
			look(h)
		}
	}
	for _, s := range p.Steps {
		look(s.Ops)
	}
	return slices.Sorted(maps.Keys(missing))
}

func (o *thing) stub(name string) actor.Stub { return o.l.host.Stub(o.l.id(name)) }

// of is an event that the object sends to another.
func (o *thing) of(r *run, to, n string, body []Op) Event {
	return Event{Label: r.label + " " + o.name + ">" + to + n, Object: to, Ops: body}
}

// ident evaluates what the id function of worker.mjs does.
func (o *thing) ident(text string) (storage.ID, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "name":
		return o.l.class.ID(rest), nil
	case "other":
		return o.l.other.ID(rest), nil
	case "unique":
		return o.l.host.NewID(o.l.class.Name())
	case "self":
		return o.s.ID(), nil
	case "parse":
		id, err := o.ident(rest)
		if err != nil {
			return id, err
		}
		return actor.ParseID(o.l.class.Name(), id.Name)
	}
	return storage.ID{}, fmt.Errorf("no such id: %s", text)
}

// at reads a time as worker.mjs does. What is no time in JavaScript is the zero time.
func (o *thing) at(text string) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	if ms, ok := strings.CutPrefix(text, "@"); ok {
		n, err := strconv.ParseInt(ms, 10, 64)
		return time.UnixMilli(n), err
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		return o.l.w.clock.Now().AddDate(0, 0, n), err
	}
	d, err := time.ParseDuration(text)
	return o.l.w.clock.Now().Add(d), err
}

// ahead says when a time is as worker.mjs does.
func (o *thing) ahead(at time.Time) string {
	switch d := at.Sub(o.l.w.clock.Now()); {
	case d < -1500*time.Millisecond:
		return "passed"
	case d < 1500*time.Millisecond:
		return "now"
	case d < 2*time.Minute:
		return fmt.Sprintf("+%ds", d.Round(time.Second)/time.Second)
	default:
		return fmt.Sprintf("+%dm", d.Round(time.Minute)/time.Minute)
	}
}

func list(_ context.Context, o *thing, op Op, _ *run) (string, error) {
	text := func(k string) string {
		if v, ok := op.Opts[k]; ok {
			return fmt.Sprint(v)
		}
		return ""
	}
	r := storage.Range{Prefix: text("prefix"), Start: text("start"), After: text("startAfter"), End: text("end")}
	limit, _ := op.Opts["limit"].(float64) // it has been JSON
	r.Limit = int(limit)
	r.Reverse, _ = op.Opts["reverse"].(bool)
	var rows []string
	for e, err := range o.s.List(r) {
		if err != nil {
			return "", err
		}
		rows = append(rows, word(e.Key)+": "+word(string(e.Value)))
	}
	return "{" + strings.Join(rows, ", ") + "}", nil
}

func (o *thing) countAll() (string, error) {
	n := 0
	for _, err := range o.s.List(storage.Range{}) {
		if err != nil {
			return "", err
		}
		n++
	}
	return fmt.Sprintf("%d rows", n), nil
}

func keys(count string) []string {
	n, _ := strconv.Atoi(count)
	all := make([]string, n)
	for i := range all {
		all[i] = "k" + strconv.Itoa(i)
	}
	return all
}

func shown(rows map[string][]byte) string {
	var s []string
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		s = append(s, word(k)+": "+word(string(rows[k])))
	}
	return "{" + strings.Join(s, ", ") + "}"
}

var plain = regexp.MustCompile(`^[\w.:/-]{1,40}$`)

// word and quote write texts as worker.mjs does.
func word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return quote(text)
}

func quote(text string) string {
	all := []rune(text)
	if len(all) > 40 && strings.Count(text, string(all[0])) == len(all) {
		return fmt.Sprintf("%c{%d}", all[0], len(all))
	}
	return marshal(text)
}
