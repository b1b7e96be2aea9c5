package check

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// MaxFindings bounds the findings that a Report lists; the others are counted.
const MaxFindings = 1000

// Report is what a check has found.
type Report struct {
	Data string `json:"data"`
	// Damaged: something that was acknowledged is lost, or can't be read.
	Damaged bool `json:"damaged"`
	// Readable: the rows could be read, as far as they are there.
	Readable  bool                     `json:"readable"`
	Boot      uint32                   `json:"boot,omitempty"` // how often the store was opened
	Tables    int                      `json:"tables"`
	Bytes     int64                    `json:"bytes"` // of the tables
	Objects   map[string]int           `json:"objects,omitempty"`
	Rows      int                      `json:"rows"`
	RowBytes  int64                    `json:"row_bytes"`
	Alarms    int                      `json:"alarms"`
	Schedules int                      `json:"schedules"`
	Owed      int                      `json:"owed"` // requests of sessions that are not answered
	Findings  []storage.Finding        `json:"findings"`
	Counts    map[storage.Severity]int `json:"counts"` // of all findings
}

// Check verifies the store in a folder. An error says that it could not be looked at:
// it is in use, or there is none.
func Check(ctx context.Context, dir string) (*Report, error) {
	r := &Report{Data: dir, Objects: map[string]int{}, Findings: []storage.Finding{}, Counts: map[storage.Severity]int{}}
	s, err := pebble.Inspect(ctx, pebble.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)}, r.add)
	if err != nil || s == nil {
		return r, err
	}
	r.Readable = true
	r.Boot = s.Boot() - 1 // without this look
	r.Tables, r.Bytes = s.Tables()
	c := &rows{r: r, s: s}
	err = c.run(ctx)
	return r, errors.Join(err, s.Close())
}

func (r *Report) add(f storage.Finding) {
	r.Counts[f.Severity]++
	if f.Severity == storage.Damage {
		r.Damaged = true
	}
	if len(r.Findings) < MaxFindings {
		r.Findings = append(r.Findings, f)
	}
}

// rows goes through all rows of a store.
type rows struct {
	r *Report
	s *pebble.Store

	object   storage.ID
	session  *session.Checker
	schedule alarm.Checker
}

func (c *rows) run(ctx context.Context) error {
	for row, err := range c.s.Rows(ctx, c.skipped) {
		if err != nil {
			return err
		}
		c.r.Rows++
		c.r.RowBytes += int64(len(row.Key) + len(row.Value))
		switch storage.PlaceOf(row.Key) {
		case storage.OfStore:
		case storage.OfFences:
			c.fence(row)
		case storage.OfIndex:
			c.index(row)
		case storage.OfRows:
			c.row(row)
		default:
			c.say(storage.Damage, fmt.Sprintf("the key %x", row.Key), "it is none of a store's", "what the row was, which can't be told", "")
		}
	}
	c.leave()
	return nil
}

func (c *rows) say(severity storage.Severity, about, what, lost, do string) {
	c.r.add(storage.Finding{Severity: severity, About: about, What: what, Lost: lost, Do: do})
}

const restoreOne = "restore a backup; a single object can be taken from one with kalpa objects export and import"

// skipped is told that a block can't be read: which object it was of, and where the
// next begins.
func (c *rows) skipped(last []byte, err error) (next []byte) {
	switch storage.PlaceOf(last) {
	case storage.OfRows:
		at, keyErr := storage.ObjectOf(last)
		if keyErr != nil {
			break
		}
		c.say(storage.Damage, "object "+at.String(), "not all of its rows can be read: "+pebble.FirstLine(err), "what can't be read of this object, or of the next one by name", restoreOne)
		// From the next object that there must be, one after the other: each is tried.
		if id, ok := c.s.NextFence(at); ok {
			c.session = nil // it is not whole
			c.object = storage.ID{}
			return storage.AppendObjectStart(nil, id)
		}
	default:
		place := max(storage.PlaceOf(last), storage.OfStore)
		about, lost := "rows about the store", "the format, and how often it was opened"
		switch place {
		case storage.OfStore, storage.OfRows: // an object's rows are above
		case storage.OfFences:
			about, lost = "epochs of objects", "which objects there are, and their epochs: these objects can't be used any more"
		case storage.OfIndex:
			about, lost = "alarms of objects", "alarms, which do not fire until their objects set them anew"
		}
		c.say(storage.Damage, about, "not all of them can be read: "+pebble.FirstLine(err), lost, "restore a backup")
		return place.Next() // what is behind them may be readable
	}
	return nil
}

func (c *rows) fence(row pebble.RawRow) {
	id, err := storage.DecodeFenceKey(row.Key)
	if err == nil && len(row.Value) != 8 {
		err = fmt.Errorf("its value is %x", row.Value)
	}
	if err != nil {
		c.say(storage.Damage, fmt.Sprintf("the epoch at key %x", row.Key), "it does not decode: "+err.Error(), "the object's epoch: it can't be used any more", "restore a backup")
		return
	}
	if boot, _ := storage.SplitEpoch(binary.BigEndian.Uint64(row.Value)); c.r.Boot > 0 && boot > c.r.Boot {
		c.say(storage.Damage, "object "+id.String(), fmt.Sprintf("its epoch is of the %d. boot, and the store knows of %d", boot, c.r.Boot),
			"what was committed since then; the object can't be used until the store has been opened as often", "restore a backup")
	}
}

func (c *rows) index(row pebble.RawRow) {
	c.r.Alarms++
	at, id, err := storage.DecodeIndexKey(row.Key)
	if err == nil {
		_, err = storage.DecodeRetry(row.Value)
	}
	if err != nil {
		c.say(storage.Damage, fmt.Sprintf("the alarm at key %x", row.Key), "it does not decode: "+err.Error(), "an alarm, which does not fire until its object sets it anew", restoreOne)
		return
	}
	v, err := c.s.Raw(storage.AppendAlarmKey(nil, id))
	switch {
	case err != nil: // told of where the rows are read
	case v == nil:
		c.say(storage.Warning, "object "+id.String(), "the index has an alarm at "+stamp(at)+", and the object has none", "nothing; it is fired once and finds nothing to do", "")
	default:
		if a, err := storage.DecodeAlarmRow(v); err == nil && !a.At.Equal(at) {
			c.say(storage.Warning, "object "+id.String(), "the index has an alarm at "+stamp(at)+", and the object one at "+stamp(a.At), "nothing; the row of the object counts", "")
		}
	}
}

func (c *rows) row(row pebble.RawRow) {
	id, key, isAlarm, err := storage.DecodeRowKey(row.Key)
	if err == nil {
		err = id.Validate()
	}
	if err != nil {
		c.say(storage.Damage, fmt.Sprintf("the key %x", row.Key), "it is of no object: "+err.Error(), "what the row was, which can't be told", "restore a backup")
		return
	}
	if id != c.object {
		c.leave()
		c.enter(id)
	}
	if isAlarm {
		c.alarmRow(id, row.Value)
		return
	}
	e := storage.Entry{Key: key, Value: row.Value}
	switch {
	case strings.HasPrefix(key, alarm.Prefix):
		if err := c.schedule.Row(e); err != nil {
			c.say(storage.Damage, "object "+id.String(), fmt.Sprintf("a schedule (row %q) does not decode: %v", key, err), "the schedule: the host sets it aside, with its payload", restoreOne)
		}
	case c.session != nil && !strings.HasPrefix(key, "\x00"):
		e.Value = append([]byte(nil), e.Value...) // it keeps what it has seen
		c.session.Row(e)
	}
}

func (c *rows) enter(id storage.ID) {
	c.object = id
	c.r.Objects[id.Class]++
	if id.Class == session.Class {
		c.session = session.NewChecker(id.Name, c.r.add)
	}
	switch v, err := c.s.Raw(storage.AppendFenceKey(nil, id)); {
	case err != nil: // told of where the fences are read
	case v == nil:
		c.say(storage.Damage, "object "+id.String(), "it has rows and no epoch", "the proof that its epochs grow; what it stored is there", restoreOne)
	}
}

// leave ends an object, when all of its rows have been seen.
func (c *rows) leave() {
	if c.object == (storage.ID{}) {
		return
	}
	if c.session != nil {
		c.r.Owed += c.session.End().Owed
	}
	n, without := c.schedule.End()
	c.r.Schedules += n
	if without != "" {
		c.say(storage.Damage, "object "+c.object.String(), fmt.Sprintf("the payload of the schedule %q is gone", without), "what the schedule was to be run with: its runs fail", restoreOne)
	}
	c.object, c.session, c.schedule = storage.ID{}, nil, alarm.Checker{}
}

func (c *rows) alarmRow(id storage.ID, v []byte) {
	a, err := storage.DecodeAlarmRow(v)
	if err != nil {
		c.say(storage.Damage, "object "+id.String(), "its alarm does not decode: "+err.Error(), "the alarm; the object can't be used until it is restored", restoreOne)
		return
	}
	switch v, err := c.s.Raw(storage.AppendIndexKey(nil, a.At, id)); {
	case err != nil:
	case v == nil:
		c.say(storage.Damage, "object "+id.String(), "it has an alarm at "+stamp(a.At)+", and the index does not", "the alarm: it does not fire until the object is used", "use the object: it sets its alarm anew")
	}
}
