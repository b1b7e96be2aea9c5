package storage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
	"unicode/utf8"
)

// An exported object is lines of JSON, version 1:
//
//	{"kalpa":"object","version":1,"class":"counter","name":"a","alarm":"2026-03-01T12:00:00Z","retry":1}
//	{"key":"n","value":"12"}
//	{"key64":"AP8=","value64":"/w=="}
//	{"end":true,"rows":2}
//
// The first line says whose rows follow; alarm and retry are left out when there
// is none. Where the alarm is a retry, "set" is the time that it was set to. A row's
// key and value are text where they are UTF-8, else base64. The last line tells a
// whole export from one that was cut off. Among the rows are the host's own, whose
// keys begin with a zero byte: schedules are exported with their object. The epoch
// is not: an import begins a new incarnation.
const (
	exportKind    = "object"
	exportVersion = 1
)

var (
	// ErrNoObject: there are neither rows nor an alarm of the object.
	ErrNoObject = errors.New("nothing is stored of the object")
	// ErrExists: the object that is to be imported is there already.
	ErrExists = errors.New("the object exists")
	// ErrFormat: what is to be imported is no whole export of an object.
	ErrFormat = errors.New("not an exported object")
)

type exportHead struct {
	Kalpa   string     `json:"kalpa"`
	Version int        `json:"version"`
	Class   string     `json:"class"`
	Name    string     `json:"name"`
	Alarm   *time.Time `json:"alarm,omitempty"`
	Retry   int        `json:"retry,omitempty"`
	Set     *time.Time `json:"set,omitempty"`
}

type exportLine struct {
	Key     *string `json:"key,omitempty"`
	Key64   []byte  `json:"key64,omitempty"`
	Value   *string `json:"value,omitempty"`
	Value64 []byte  `json:"value64,omitempty"`
	End     bool    `json:"end,omitempty"`
	Rows    *int    `json:"rows,omitempty"`
}

// Export writes what the store has of an object. Who calls it sees to it that the
// object is not written to meanwhile; package actor does for a host that runs.
func Export(ctx context.Context, s Store, id ID, w io.Writer) error {
	alarm, err := s.Alarm(ctx, id)
	if err != nil {
		return err
	}
	return WriteExport(w, id, alarm, s.List(ctx, id, Range{}))
}

// WriteExport writes an object that has been read.
func WriteExport(w io.Writer, id ID, alarm Alarm, rows iter.Seq2[Entry, error]) error {
	fail := func(err error) error { return &Error{Op: "export", ID: id, Err: err} }
	b := bufio.NewWriter(w)
	lines := json.NewEncoder(b)
	lines.SetEscapeHTML(false)
	head := exportHead{Kalpa: exportKind, Version: exportVersion, Class: id.Class, Name: id.Name}
	if alarm = alarm.Normal(); !alarm.At.IsZero() {
		head.Alarm, head.Retry = &alarm.At, alarm.Retry
		if !alarm.Set.IsZero() {
			head.Set = &alarm.Set
		}
	}
	if err := lines.Encode(head); err != nil {
		return fail(err)
	}
	n := 0
	for e, err := range rows {
		if err != nil {
			return fail(err)
		}
		var l exportLine
		l.Key, l.Key64 = split([]byte(e.Key))
		l.Value, l.Value64 = split(e.Value)
		if err := lines.Encode(l); err != nil {
			return fail(err)
		}
		n++
	}
	if n == 0 && head.Alarm == nil {
		return fail(ErrNoObject)
	}
	if err := lines.Encode(exportLine{End: true, Rows: &n}); err != nil {
		return fail(err)
	}
	if err := b.Flush(); err != nil {
		return fail(err)
	}
	return nil
}

// split is bytes as text, or as they are.
func split(b []byte) (*string, []byte) {
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	return nil, b
}

// join is the inverse of split; false: there are both, or neither.
func join(text *string, b []byte) (string, bool) {
	if text != nil {
		return *text, b == nil
	}
	return string(b), b != nil
}

// ReadExport reads an exported object into a batch that makes it what it was: it
// clears the object first. The batch has no epoch yet. What is no whole export, or
// too large for one commit, is refused with an *Error that wraps ErrFormat or
// ErrInvalid.
func ReadExport(r io.Reader) (*Batch, error) {
	b := &Batch{Clear: true}
	fail := func(err error) (*Batch, error) { return nil, &Error{Op: "import", ID: b.ID, Err: err} }
	lines := json.NewDecoder(r)
	lines.DisallowUnknownFields()
	var head exportHead
	if err := lines.Decode(&head); err != nil {
		return fail(fmt.Errorf("%w: the first line: %w", ErrFormat, err))
	}
	if head.Kalpa != exportKind || head.Version != exportVersion {
		return fail(fmt.Errorf("%w: it begins with %q version %d, and this is for %q version %d", ErrFormat, head.Kalpa, head.Version, exportKind, exportVersion))
	}
	b.ID = ID{Class: head.Class, Name: head.Name}
	if head.Alarm != nil {
		b.Alarm = &Alarm{At: *head.Alarm, Retry: head.Retry}
		if head.Set != nil {
			b.Alarm.Set = *head.Set
		}
	}
	known := map[string]bool{}
	size := b.Size()
	for n := 1; ; n++ {
		var l exportLine
		if err := lines.Decode(&l); errors.Is(err, io.EOF) {
			return fail(fmt.Errorf("%w: it has been cut off after %d rows", ErrFormat, len(b.Puts)))
		} else if err != nil {
			return fail(fmt.Errorf("%w: row %d: %w", ErrFormat, n, err))
		}
		if l.End {
			if l.Rows == nil || *l.Rows != len(b.Puts) {
				return fail(fmt.Errorf("%w: it has %d rows, and not as many as its last line says", ErrFormat, len(b.Puts)))
			}
			break
		}
		key, ok1 := join(l.Key, l.Key64)
		value, ok2 := join(l.Value, l.Value64)
		if !ok1 || !ok2 || l.Rows != nil {
			return fail(fmt.Errorf("%w: row %d has not one key and one value", ErrFormat, n))
		}
		if known[key] {
			return fail(fmt.Errorf("%w: row %d has the key %q again", ErrFormat, n, key))
		}
		known[key] = true
		b.Puts = append(b.Puts, Entry{key, []byte(value)})
		if size += len(key) + len(value) + 40; size > MaxBatch {
			return fail(fmt.Errorf("%w: it has more than the %d bytes that one commit can have", ErrInvalid, MaxBatch))
		}
	}
	if err := lines.Decode(new(exportLine)); !errors.Is(err, io.EOF) {
		return fail(fmt.Errorf("%w: something follows its last line", ErrFormat))
	}
	if err := b.Validate(); err != nil {
		return fail(err)
	}
	return b, nil
}

// Import makes an object what an export says, in one commit. With replace, one that
// exists is replaced; else it is refused with an *Error that wraps ErrExists.
// Whatever incarnation the object has is superseded.
func Import(ctx context.Context, s Store, b *Batch, replace bool) error {
	if !replace {
		exists, err := stored(ctx, s, b.ID)
		if err != nil {
			return err
		}
		if exists {
			return &Error{Op: "import", ID: b.ID, Err: ErrExists, Hint: "ask for it to be replaced"}
		}
	}
	epoch, err := Claim(ctx, s, b.ID)
	if err != nil {
		return err
	}
	defer s.Release(b.ID, epoch)
	b.Epoch = epoch
	return Commit(ctx, s, b)
}

// stored reports whether there is anything of an object.
func stored(ctx context.Context, s Store, id ID) (bool, error) {
	alarm, err := s.Alarm(ctx, id)
	if err != nil || !alarm.At.IsZero() {
		return err == nil, err
	}
	for _, err := range s.List(ctx, id, Range{Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}

// Remove deletes all that is stored of an object, in one commit; its epoch stays.
// Whatever incarnation the object has is superseded. It fails with an *Error that wraps
// ErrNoObject when there is nothing.
func Remove(ctx context.Context, s Store, id ID) error {
	switch there, err := stored(ctx, s, id); {
	case err != nil:
		return err
	case !there:
		return &Error{Op: "remove", ID: id, Err: ErrNoObject}
	}
	epoch, err := Claim(ctx, s, id)
	if err != nil {
		return err
	}
	defer s.Release(id, epoch)
	return Commit(ctx, s, &Batch{ID: id, Epoch: epoch, Clear: true})
}
