package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The key layout, version 1. Every key of a store that keeps its rows in one
// ordered space (Pebble does) is one of these:
//
//	01 name                             a row about the store itself
//	02 class 00 name 00                 fence row: epoch (be64)
//	03 time class 00 name 00            alarm index: retry (uvarint)
//	04 class 00 name 00 00              alarm row: time (be64), retry (uvarint), and where
//	                                    that is a retry's time, the one set (be64)
//	04 class 00 name 00 01 key          a row of the object: its value
//
// time is the microseconds since 1970, be64 with the sign bit flipped, so that
// bytes order as times do. Neither class nor name may hold a zero byte; the
// terminator makes objects order by class and then name, and the keys of one
// object contiguous: deleting it is one range deletion. The fence row lies
// outside that range. The alarm index orders by time, so a restart reads the
// alarms that are due and nothing else; the alarm row tells which index entry
// to remove when the alarm moves.
//
// Rows about the store: "boot", the last boot number (be32), and "format", the
// version of this layout (be32).
const (
	// FormatVersion is the version of the key layout and of the store's folder.
	FormatVersion = 1

	tagStore = 0x01
	tagFence = 0x02
	tagIndex = 0x03
	tagRows  = 0x04

	kindAlarm = 0x00
	kindRow   = 0x01
)

// What a store accepts.
const (
	MaxClass = 64   // bytes of [A-Za-z0-9_.-]
	MaxName  = 1024 // bytes of UTF-8 without a zero byte
	MaxKey   = 2048 // bytes, any
	MaxRetry = 1<<31 - 1
	// MaxValue is a bound for safety. What an object may store in one value is
	// decided by the layers above, and is much less.
	MaxValue = 17 << 20
	// MaxBatch bounds the Size of one batch.
	MaxBatch = 64 << 20
)

// BootKey and FormatKey are the keys of the rows about the store.
var (
	BootKey   = append([]byte{tagStore}, "boot"...)
	FormatKey = append([]byte{tagStore}, "format"...)
)

// AppendFenceKey appends the key of an object's fence row.
func AppendFenceKey(dst []byte, id ID) []byte { return appendID(append(dst, tagFence), id) }

// DecodeFenceKey takes the key of a fence row apart.
func DecodeFenceKey(k []byte) (ID, error) {
	if len(k) == 0 || k[0] != tagFence {
		return ID{}, errKey
	}
	id, rest, err := decodeID(k[1:])
	if err == nil && len(rest) > 0 {
		err = errKey
	}
	return id, err
}

// FenceBounds are the bounds of the fence rows after an object's.
func FenceBounds(after ID) (lower, upper []byte) {
	lower, upper = []byte{tagFence}, []byte{tagFence + 1}
	if after != (ID{}) {
		lower = append(AppendFenceKey(nil, after), 0)
	}
	return lower, upper
}

// Place is what a key is of.
type Place byte

// The places of the layout.
const (
	OfStore  Place = tagStore
	OfFences Place = tagFence
	OfIndex  Place = tagIndex
	OfRows   Place = tagRows
)

// PlaceOf is the place that a key is in; one that is none of these: no key of ours.
func PlaceOf(k []byte) Place {
	if len(k) == 0 {
		return 0
	}
	return Place(k[0])
}

// Next is where the keys of the place behind this one begin.
func (p Place) Next() []byte { return []byte{byte(p) + 1} }

// AppendAlarmKey appends the key of an object's alarm row.
func AppendAlarmKey(dst []byte, id ID) []byte {
	return append(appendID(append(dst, tagRows), id), kindAlarm)
}

// AppendRowKey appends the key of an object's row. With an empty key it is the
// lower bound of the object's rows.
func AppendRowKey(dst []byte, id ID, key string) []byte {
	return append(append(appendID(append(dst, tagRows), id), kindRow), key...)
}

// RowKeyLen is the length of what AppendRowKey appends.
func RowKeyLen(id ID, key string) int { return len(id.Class) + len(id.Name) + len(key) + 4 }

// AppendObjectStart appends the inclusive lower bound of an object's keys.
func AppendObjectStart(dst []byte, id ID) []byte { return appendID(append(dst, tagRows), id) }

// AppendObjectEnd appends the exclusive upper bound of an object's keys.
func AppendObjectEnd(dst []byte, id ID) []byte {
	dst = AppendObjectStart(dst, id)
	dst[len(dst)-1] = 0x01
	return dst
}

// AppendIndexKey appends the key of an alarm in the index. With the zero ID it
// is a lower bound of all alarms at that time.
func AppendIndexKey(dst []byte, at time.Time, id ID) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, tagIndex), orderedMicros(at))
	if id == (ID{}) {
		return dst
	}
	return appendID(dst, id)
}

// IndexBounds are the bounds of Due: what comes after the cursor and is not
// later than until.
func IndexBounds(after Cursor, until time.Time) (lower, upper []byte) {
	lower = []byte{tagIndex}
	if after != (Cursor{}) {
		lower = AppendIndexKey(nil, after.At, after.ID)
		if after.ID != (ID{}) {
			lower = append(lower, 0)
		}
	}
	upper = binary.BigEndian.AppendUint64([]byte{tagIndex}, orderedMicros(until)+1)
	return lower, upper
}

// ClassBounds are the bounds of all objects of a class after a name.
func ClassBounds(class, after string) (lower, upper []byte) {
	upper = append(append([]byte{tagRows}, class...), 0x01)
	if after != "" {
		return AppendObjectEnd(nil, ID{class, after}), upper
	}
	lower = append(append([]byte{tagRows}, class...), 0x00)
	return lower, upper
}

// ObjectBounds are the bounds of all rows of all objects.
func ObjectBounds() (lower, upper []byte) { return []byte{tagRows}, []byte{tagRows + 1} }

// AfterClass is the first key behind all rows of a class.
func AfterClass(class string) []byte { return append(append([]byte{tagRows}, class...), 0x01) }

// RowBounds are the bounds of the rows that a range selects. If lower is not
// below upper, there are none.
func RowBounds(id ID, r Range) (lower, upper []byte) {
	first := max(r.Prefix, r.Start)
	lower = AppendRowKey(make([]byte, 0, RowKeyLen(id, first)), id, first)
	if r.After != "" && r.After >= first {
		lower = append(AppendRowKey(lower[:0], id, r.After), 0)
	}
	upper = AppendObjectEnd(nil, id)
	if end, ok := prefixEnd(r.Prefix); ok && (r.End == "" || end < r.End) {
		upper = AppendRowKey(upper[:0], id, end)
	} else if r.End != "" {
		upper = AppendRowKey(upper[:0], id, r.End)
	}
	return lower, upper
}

// RowOffset is where the object's own key begins in a row's key.
func RowOffset(id ID) int { return RowKeyLen(id, "") }

// DecodeRowKey takes the key of an object's row or alarm row apart; alarm tells
// which it is.
func DecodeRowKey(k []byte) (id ID, key string, alarm bool, err error) {
	if len(k) == 0 || k[0] != tagRows {
		return ID{}, "", false, errKey
	}
	id, rest, err := decodeID(k[1:])
	switch {
	case err != nil:
	case len(rest) == 1 && rest[0] == kindAlarm:
		return id, "", true, nil
	case len(rest) > 1 && rest[0] == kindRow:
		return id, string(rest[1:]), false, nil
	}
	return ID{}, "", false, errKey
}

// DecodeIndexKey takes the key of an alarm in the index apart. What no alarm and
// no object can have is an error too.
func DecodeIndexKey(k []byte) (at time.Time, id ID, err error) {
	if len(k) < 9 || k[0] != tagIndex {
		return time.Time{}, ID{}, errKey
	}
	id, rest, err := decodeID(k[9:])
	at = microsTime(binary.BigEndian.Uint64(k[1:]))
	if err != nil || len(rest) != 0 || !(Alarm{At: at}).valid() || id.Validate() != nil {
		return time.Time{}, ID{}, errKey
	}
	return at, id, nil
}

// AppendAlarmRow appends the value of an alarm row.
func AppendAlarmRow(dst []byte, a Alarm) []byte {
	dst = binary.BigEndian.AppendUint64(dst, orderedMicros(a.At))
	dst = binary.AppendUvarint(dst, uint64(a.Retry))
	if a.Set.IsZero() {
		return dst
	}
	return binary.BigEndian.AppendUint64(dst, orderedMicros(a.Set))
}

// DecodeAlarmRow reads what AppendAlarmRow wrote.
func DecodeAlarmRow(v []byte) (Alarm, error) {
	if len(v) < 9 {
		return Alarm{}, errAlarm
	}
	a := Alarm{At: microsTime(binary.BigEndian.Uint64(v))}
	_, size := binary.Uvarint(v[8:])
	if end := len(v) - 8; size > 0 && 8+size == end {
		a.Set, v = microsTime(binary.BigEndian.Uint64(v[end:])), v[:end]
	}
	var err error
	a.Retry, err = DecodeRetry(v[8:])
	return a, err
}

// AppendRetry appends the value of an alarm in the index.
func AppendRetry(dst []byte, retry int) []byte { return binary.AppendUvarint(dst, uint64(retry)) }

// DecodeRetry reads what AppendRetry wrote.
func DecodeRetry(v []byte) (int, error) {
	n, size := binary.Uvarint(v)
	if size != len(v) || n > MaxRetry {
		return 0, errAlarm
	}
	return int(n), nil
}

var (
	errKey   = errors.New("a key outside the layout")
	errAlarm = errors.New("a malformed alarm row")
)

// ObjectOf returns the object that a key of its range belongs to, without a
// look at what follows.
func ObjectOf(k []byte) (ID, error) {
	if len(k) == 0 || k[0] != tagRows {
		return ID{}, errKey
	}
	id, _, err := decodeID(k[1:])
	return id, err
}

func appendID(dst []byte, id ID) []byte {
	dst = append(append(dst, id.Class...), 0)
	return append(append(dst, id.Name...), 0)
}

func decodeID(k []byte) (id ID, rest []byte, err error) {
	s := string(k)
	class, s, ok1 := strings.Cut(s, "\x00")
	name, s, ok2 := strings.Cut(s, "\x00")
	if !ok1 || !ok2 {
		return ID{}, nil, errKey
	}
	return ID{class, name}, k[len(k)-len(s):], nil
}

// orderedMicros holds times outside of what an alarm may be at their limits, so
// that a cursor or a bound can be any time.
func orderedMicros(t time.Time) uint64 {
	switch {
	case t.Before(minAlarm):
		t = minAlarm
	case t.After(maxAlarm):
		t = maxAlarm
	}
	return uint64(t.UnixMicro()) ^ 1<<63
}

func microsTime(v uint64) time.Time { return time.UnixMicro(int64(v ^ 1<<63)).UTC() }

// prefixEnd is the first key after all that begin with the prefix, if there is one.
func prefixEnd(prefix string) (string, bool) {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1}), true
		}
	}
	return "", false
}

// Validate reports an ID that can't be stored, as an error that wraps ErrInvalid.
func (id ID) Validate() error {
	if err := ValidateClass(id.Class); err != nil {
		return err
	}
	switch {
	case id.Name == "":
		return fmt.Errorf("%w: the name is empty", ErrInvalid)
	case len(id.Name) > MaxName:
		return fmt.Errorf("%w: the name has %d bytes, at most %d are allowed", ErrInvalid, len(id.Name), MaxName)
	case strings.IndexByte(id.Name, 0) >= 0:
		return fmt.Errorf("%w: the name holds a zero byte", ErrInvalid)
	case !utf8.ValidString(id.Name):
		return fmt.Errorf("%w: the name is not UTF-8", ErrInvalid)
	}
	return nil
}

// ValidateClass reports the name of a class that can't be stored, as an error
// that wraps ErrInvalid.
func ValidateClass(class string) error {
	if class == "" || len(class) > MaxClass {
		return fmt.Errorf("%w: the class has %d bytes, want 1 to %d", ErrInvalid, len(class), MaxClass)
	}
	for i := 0; i < len(class); i++ {
		switch c := class[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '-':
		default:
			return fmt.Errorf("%w: the class %q holds more than letters, digits, '_', '.' and '-'", ErrInvalid, class)
		}
	}
	return nil
}

// ValidateKey reports a key that can't be stored, as an error that wraps ErrInvalid.
func ValidateKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("%w: the key has %d bytes, want 1 to %d", ErrInvalid, len(key), MaxKey)
	}
	return nil
}

// Validate reports a batch that can't be stored, as an error that wraps ErrInvalid.
func (b *Batch) Validate() error {
	if err := b.ID.Validate(); err != nil {
		return err
	}
	for _, k := range b.Deletes {
		if err := ValidateKey(k); err != nil {
			return err
		}
	}
	for i := range b.Puts {
		if err := ValidateKey(b.Puts[i].Key); err != nil {
			return err
		}
		if n := len(b.Puts[i].Value); n > MaxValue {
			return fmt.Errorf("%w: the value of %q has %d bytes, at most %d are allowed", ErrInvalid, b.Puts[i].Key, n, MaxValue)
		}
	}
	if b.Alarm != nil && !b.Alarm.valid() {
		return fmt.Errorf("%w: an alarm at %v with %d retries", ErrInvalid, b.Alarm.At, b.Alarm.Retry)
	}
	if n := b.Size(); n > MaxBatch {
		return fmt.Errorf("%w: the batch has %d bytes, at most %d are allowed", ErrInvalid, n, MaxBatch)
	}
	return nil
}
