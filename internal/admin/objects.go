package admin

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// maxShown bounds what is shown of a value, in bytes.
const maxShown = 4 << 10

// maxImport bounds the text of an object that is imported, in bytes: that of the
// largest commit, as base64.
const maxImport = 2 * storage.MaxBatch

func (a *api) classes(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	registered := a.o.Host.Classes()
	names := slices.Clone(registered)
	if s, ok := a.o.Host.Store().(interface {
		Classes(context.Context) ([]string, error)
	}); ok {
		stored, err := s.Classes(r.Context())
		if err != nil {
			return nil, err
		}
		names = append(names, stored...)
	}
	slices.Sort(names)
	memory := map[string]int64{}
	for n := range a.o.Host.Isolates() {
		for class, objects := range a.o.Host.Isolate(n).Objects {
			memory[class] += objects
		}
	}
	all := Classes{Classes: []Class{}}
	for _, name := range slices.Compact(names) {
		all.Classes = append(all.Classes, Class{name, slices.Contains(registered, name), memory[name]})
	}
	return all, nil
}

func (a *api) objects(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := params(r, "class", "limit", "after", "prefix")
	if err != nil {
		return nil, err
	}
	limit, err := pageOf(q)
	if err != nil {
		return nil, err
	}
	class, after, prefix := q.Get("class"), q.Get("after"), q.Get("prefix")
	if err := storage.ValidateClass(class); err != nil {
		return nil, wrong("class", "kalpa objects list shows them", "%v", err)
	}
	ctx, store := r.Context(), a.o.Host.Store()
	page := Objects{Objects: []Object{}}
	add := func(id storage.ID) error {
		o, _, err := a.objectOf(ctx, id)
		page.Objects = append(page.Objects, o)
		return err
	}
	if prefix > after { // the one that is the prefix comes before those that go on from it
		after = prefix
		id := storage.ID{Class: class, Name: prefix}
		if there, err := a.stored(ctx, id); err != nil {
			return nil, err
		} else if there {
			if err := add(id); err != nil {
				return nil, err
			}
		}
	}
	ids, err := store.Objects(ctx, class, after, limit+1)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if !strings.HasPrefix(id.Name, prefix) {
			break
		}
		if len(page.Objects) == limit {
			page.Next = page.Objects[limit-1].Name
			break
		}
		if err := add(id); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// stored tells whether there is anything of an object; of what can't be one, nothing.
func (a *api) stored(ctx context.Context, id storage.ID) (bool, error) {
	if id.Validate() != nil {
		return false, nil
	}
	if alarm, err := a.o.Host.Store().Alarm(ctx, id); err == nil && !alarm.At.IsZero() {
		return true, nil
	}
	for _, err := range a.o.Host.Store().List(ctx, id, storage.Range{Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}

func (a *api) objectOf(ctx context.Context, id storage.ID) (Object, int, error) {
	o := Object{Class: id.Class, Name: id.Name, Isolate: a.o.Host.IsolateOf(id), Epoch: a.o.Host.Epoch(id)}
	row, err := a.o.Host.Store().Alarm(ctx, id)
	o.Alarm = row.At
	return o, row.Retry, err
}

// one is the object that the parameters class and name are about.
func one(q url.Values) (storage.ID, error) {
	id := storage.ID{Class: q.Get("class"), Name: q.Get("name")}
	if err := storage.ValidateClass(id.Class); err != nil {
		return id, wrong("class", "kalpa objects list shows them", "%v", err)
	}
	if err := id.Validate(); err != nil {
		return id, wrong("name", "kalpa objects list CLASS shows them", "%v", err)
	}
	return id, nil
}

func (a *api) objectDetail(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := params(r, "class", "name", "limit", "after")
	if err != nil {
		return nil, err
	}
	limit, err := pageOf(q)
	if err != nil {
		return nil, err
	}
	id, err := one(q)
	if err != nil {
		return nil, err
	}
	after, err := cursorOf(q)
	if err != nil {
		return nil, err
	}
	ctx, store := r.Context(), a.o.Host.Store()
	if there, err := a.stored(ctx, id); err != nil || !there {
		if err == nil {
			err = nothingStored(id)
		}
		return nil, err
	}
	d := ObjectDetail{Rows: []Row{}}
	if d.Object, d.Retry, err = a.objectOf(ctx, id); err != nil {
		return nil, err
	}
	read := func(r storage.Range) (rows []storage.Entry, err error) {
		for e, err := range store.List(ctx, id, r) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, e)
		}
		return rows, nil
	}
	schedules, err := alarm.ReadEntries(read)
	if err != nil {
		return nil, err
	}
	for _, s := range schedules {
		d.Schedules = append(d.Schedules, Schedule{s.ID, s.Callback, string(s.Kind), s.Spec, s.Zone, s.Due, s.Next, s.Failed, s.Running != nil})
	}
	rows, err := read(storage.Range{After: string(after), Limit: limit + 1})
	if err != nil {
		return nil, err
	}
	if len(rows) > limit {
		rows = rows[:limit]
		d.Next = cursor([]byte(rows[limit-1].Key))
	}
	for _, e := range rows {
		row := Row{Size: len(e.Value)}
		row.Key, row.Key64 = shown([]byte(e.Key))
		row.Value, row.Value64 = shown(cutText(e.Value, maxShown))
		d.Rows = append(d.Rows, row)
	}
	return d, nil
}

// shown is bytes as text, or as they are.
func shown(b []byte) (*string, []byte) {
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	return nil, b
}

// cutText is the beginning of a value, without half a character at its end.
func cutText(b []byte, limit int) []byte {
	if len(b) <= limit {
		return b
	}
	b = b[:limit]
	for i := range utf8.UTFMax {
		if c := b[len(b)-1-i:]; utf8.RuneStart(c[0]) {
			if !utf8.FullRune(c) {
				return b[:len(b)-1-i]
			}
			break
		}
	}
	return b
}

func nothingStored(id storage.ID) error {
	return notFound("kalpa objects list CLASS shows what is there; what an object has not yet written can't be seen", "nothing is stored of %s", id)
}

func (a *api) export(w http.ResponseWriter, r *http.Request) {
	err := func() error {
		q, err := params(r, "class", "name")
		if err != nil {
			return err
		}
		id, err := one(q)
		if err != nil {
			return err
		}
		var text bytes.Buffer // an error must not come after a 200
		if err := a.o.Host.Export(r.Context(), id, &text); err != nil {
			return aboutObject(id, err)
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(text.Bytes()) // the client may have gone
		return nil
	}()
	if err != nil {
		a.fail(w, r, err)
	}
}

func (a *api) importObject(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := params(r, "replace")
	if err != nil {
		return nil, err
	}
	replace, err := truth(q, "replace")
	if err != nil {
		return nil, err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-ndjson" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Text: "the request is not of type application/x-ndjson",
			Hint: "send what kalpa objects export has written, with the header Content-Type: application/x-ndjson"}
	}
	id, err := a.o.Host.Import(r.Context(), http.MaxBytesReader(w, r.Body, maxImport), replace)
	if err != nil {
		return nil, aboutObject(id, err)
	}
	a.o.Logger.Warn("an object was imported", "object", id.String(), "replace", replace)
	return Imported{id.Class, id.Name}, nil
}

func (a *api) remove(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := params(r, "class", "name")
	if err != nil {
		return nil, err
	}
	id, err := one(q)
	if err != nil {
		return nil, err
	}
	a.o.Logger.Warn("the removal of an object was asked for", "object", id.String())
	if err := a.o.Host.Remove(r.Context(), id); err != nil {
		return nil, aboutObject(id, err)
	}
	return Removed{id.Class, id.Name}, nil
}

// aboutObject puts an error of the host into the terms of the API.
func aboutObject(id storage.ID, err error) error {
	switch {
	case errors.Is(err, storage.ErrNoObject):
		return nothingStored(id)
	case errors.Is(err, storage.ErrExists):
		return &Error{Status: http.StatusConflict, Text: id.String() + " exists already", Hint: "with --replace it is replaced (over HTTP: replace=true)", Err: err}
	case errors.Is(err, storage.ErrFormat), errors.Is(err, storage.ErrInvalid):
		return &Error{Status: http.StatusBadRequest, Text: err.Error(), Hint: "give what kalpa objects export has written, whole", Err: err}
	case errors.Is(err, actor.ErrNoClass):
		return &Error{Status: http.StatusBadRequest, Text: err.Error(), Hint: "import it with the program that has the class", Err: err}
	}
	return err
}
