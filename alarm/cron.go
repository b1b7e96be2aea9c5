package alarm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones are there wherever the program runs

	"github.com/adhocore/gronx"
)

// cron is a cron expression in its time zone. What a field means is gronx's; the
// search for the next time is our own, since it must end, and must know what to
// do on the two days of a year whose hours are 23 and 25.
//
// Across a change of the clocks, what runs every hour (an hour field that begins
// with *) runs at every real one of them. What runs at fixed hours runs once: a
// time that the clocks skip is run at the change, one that comes twice at its
// first.
type cron struct {
	loc    *time.Location
	second [60]bool
	minute [60]bool
	hour   [24]bool
	month  [13]bool
	// days is the expression as gronx takes it, with all but the days and the year
	// open.
	days []string
	gron *gronx.Gronx
	// hourly: see above.
	hourly bool
}

const (
	// maxCron bounds an expression, in bytes.
	maxCron = 256
	// cronHorizon is how far the next time may be: the longest gap that calendars
	// make is that of a 29 February on one day of the week, 40 years with the leap
	// day that 2100 leaves out.
	cronHorizon = 41
)

// cronFields name the fields as gronx counts them.
var cronFields = [...]string{"second", "minute", "hour", "day of month", "month", "day of week", "year"}

var cronWord = regexp.MustCompile(`\S+`)

// cronParts are what may stand between commas in a field. Names belong to months and
// to days of the week, the rest of the letters to days.
var cronParts = func() (all [len(cronFields)]*regexp.Regexp) {
	const month, weekday = `JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC`, `SUN|MON|TUE|WED|THU|FRI|SAT`
	for i := range all {
		value, special := `\d{1,4}`, ""
		switch i {
		case 3:
			special = `|L|(0?[1-9]|[12]\d|3[01])W`
		case 4:
			value += "|" + month
		case 5:
			value += "|" + weekday
			special = `|([0-7]|` + weekday + `)(L|#[1-5])`
		}
		all[i] = regexp.MustCompile(`^(([*?]|(` + value + `)(-(` + value + `))?)(/\d{1,4})?` + special + `)$`)
	}
	return all
}()

// cronError says what is wrong and where, in bytes from 1.
func cronError(spec string, at int, format string, args ...any) error {
	return fmt.Errorf("%w: %q, at position %d: %s", ErrCron, spec, at+1, fmt.Sprintf(format, args...))
}

func parseCron(spec, zone string) (*cron, error) {
	c := &cron{loc: time.UTC, gron: gronx.New()}
	if zone != "" {
		loc, err := time.LoadLocation(zone)
		if err != nil || zone == "Local" {
			return nil, fmt.Errorf("%w: %q", ErrZone, zone)
		}
		c.loc = loc
	}
	fields, err := cronSegments(spec)
	if err != nil {
		return nil, err
	}
	matches(c.second[:], fields, 0)
	matches(c.minute[:], fields, 1)
	matches(c.hour[:], fields, 2)
	matches(c.month[:], fields, 4)
	c.hourly = strings.HasPrefix(fields[2], "*") || fields[2] == "?"
	c.days = append([]string{"*", "*", "*", fields[3], "*"}, fields[5:]...)
	return c, nil
}

// cronSegments are the fields as gronx has them: checked, with seconds in front, and
// numbers for names.
func cronSegments(spec string) ([]string, error) {
	if len(spec) > maxCron {
		return nil, cronError(spec[:16]+"...", maxCron, "an expression has at most %d bytes", maxCron)
	}
	places := cronWord.FindAllStringIndex(spec, -1)
	words := cronWord.FindAllString(spec, -1)
	fields, err := gronx.Segments(strings.Join(words, " "))
	if i := strings.IndexByte(spec, '@'); i >= 0 {
		if err != nil || len(words) != 1 {
			return nil, cronError(spec, i, "no such shorthand")
		}
		return fields, nil
	}
	if err != nil {
		at := len(spec)
		if len(words) > len(cronFields) {
			at = places[len(cronFields)][0]
		}
		return nil, cronError(spec, at, "an expression has 5 to 7 fields, this has %d", len(words))
	}
	first := len(fields) - len(words) // 1 if gronx has put the seconds there
	for i, word := range words {
		field, at := first+i, places[i][0]
		given := strings.Split(word, ",")
		for n, part := range strings.Split(fields[field], ",") {
			if err := checkCronPart(strings.ToUpper(given[n]), part, field); err != nil {
				return nil, cronError(spec, at, "%s: %v", cronFields[field], err)
			}
			at += len(given[n]) + 1
		}
	}
	return fields, nil
}

// probe is a time whose field has the value.
func probe(field, value int) time.Time {
	switch field {
	case 0, 1, 2:
		t := [3]int{}
		t[field] = value
		return time.Date(2024, 1, 1, t[2], t[1], t[0], 0, time.UTC)
	case 3:
		return time.Date(2024, 1, value, 0, 0, 0, 0, time.UTC)
	case 4:
		return time.Date(2024, time.Month(value), 1, 0, 0, 0, 0, time.UTC)
	case 5:
		return time.Date(2024, 9, 1+value, 0, 0, 0, 0, time.UTC) // a Sunday, and on
	default:
		return time.Date(value, 1, 1, 0, 0, 0, 0, time.UTC)
	}
}

// fieldValues are the least and the greatest value of each field, or enough of
// them to see an error.
var fieldValues = [...][2]int{{0, 59}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}, {2024, 2025}}

// checkCronPart checks a part, as it was given and with numbers for names. gronx looks
// at it against all values that it can meet: it reports errors only when it gets to
// them, and does not look at steps.
func checkCronPart(given, part string, field int) error {
	least, greatest := fieldValues[field][0], fieldValues[field][1]
	if !cronParts[field].MatchString(given) {
		return fmt.Errorf("%q is not a value, a range, a step or a list of them", given)
	}
	if base, step, ok := strings.Cut(part, "/"); ok && field < 6 {
		if n, err := strconv.Atoi(step); err != nil || n > greatest-least+1 {
			return fmt.Errorf("%q: there are no %s values to step over", given, step)
		}
		if n, err := strconv.Atoi(base); err == nil && n < least {
			return fmt.Errorf("%q: %d is out of bounds (%d, %d)", given, n, least, greatest)
		}
	}
	for v := least; v <= greatest; v++ {
		check := &gronx.SegmentChecker{}
		check.SetRef(probe(field, v))
		if _, err := check.CheckDue(part, field); err != nil {
			return fmt.Errorf("%q: %v", given, err)
		}
	}
	return nil
}

func matches(set []bool, fields []string, field int) {
	check := &gronx.SegmentChecker{}
	for v := fieldValues[field][0]; v <= fieldValues[field][1]; v++ {
		check.SetRef(probe(field, v))
		set[v], _ = check.CheckDue(fields[field], field) // has been checked
	}
}

// day reports whether the day of t matches.
func (c *cron) day(t time.Time) bool {
	if !c.month[t.Month()] {
		return false
	}
	c.gron.C.SetRef(t)
	due, err := c.gron.SegmentsDue(c.days)
	return due && err == nil
}

// next is the first time after a time; false when there is none within the horizon.
func (c *cron) next(after time.Time) (time.Time, bool) {
	end := after.AddDate(cronHorizon, 0, 0)
	t := after.In(c.loc)
	to := t.Truncate(time.Second).Add(time.Second)
	for !to.After(end) {
		// Package time has bounds in leap years to come that are changes of nothing, and
		// don't lie ahead: going on must not depend on them.
		if _, change := t.ZoneBounds(); change.After(t) && !to.Before(change) {
			if c.skipped(change) {
				return change.UTC(), true
			}
			to = change.In(c.loc)
		}
		t = to
		if c.matches(t) && !c.repeated(t) {
			return t.UTC(), true
		}
		to = c.step(t)
	}
	return time.Time{}, false
}

func (c *cron) matches(t time.Time) bool {
	return c.second[t.Second()] && c.minute[t.Minute()] && c.hour[t.Hour()] && c.day(t)
}

// step is the next time, by the clock, that could match.
func (c *cron) step(t time.Time) time.Time {
	y, mo, d := t.Date()
	var to time.Time
	switch {
	case !c.month[mo]:
		to = time.Date(y, mo+1, 1, 0, 0, 0, 0, c.loc)
	case !c.day(t):
		to = time.Date(y, mo, d+1, 0, 0, 0, 0, c.loc)
	case !c.hour[t.Hour()]:
		return t.Add(time.Hour - time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second)
	case !c.minute[t.Minute()]:
		return t.Add(time.Minute - time.Duration(t.Second())*time.Second)
	default:
		return t.Add(time.Second)
	}
	if !to.After(t) { // midnight is what the clocks skip
		return t.Add(time.Hour)
	}
	return to
}

// repeated reports that a fixed hour has been before, when the clocks were put back.
func (c *cron) repeated(t time.Time) bool {
	since, _ := t.ZoneBounds()
	if c.hourly || since.IsZero() {
		return false
	}
	return t.Before(since.Add(shift(since, c.loc)))
}

// shift is by how much the clocks were put back at a change, below zero if forward.
func shift(change time.Time, loc *time.Location) time.Duration {
	_, before := change.Add(-time.Nanosecond).In(loc).Zone()
	_, after := change.In(loc).Zone()
	return time.Duration(before-after) * time.Second
}

// skipped reports that a fixed hour lies in what the clocks skip at a change.
func (c *cron) skipped(change time.Time) bool {
	gap := -shift(change, c.loc)
	if c.hourly || gap <= 0 {
		return false
	}
	// The wall clock of what is skipped, as UTC: all that counts are its fields.
	_, after := change.In(c.loc).Zone()
	to := change.UTC().Add(time.Duration(after) * time.Second)
	for t := to.Add(-gap); t.Before(to); t = t.Add(time.Minute) {
		if c.minute[t.Minute()] && c.hour[t.Hour()] && c.day(t) {
			return true
		}
	}
	return false
}
