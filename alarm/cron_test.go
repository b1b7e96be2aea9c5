package alarm

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/adhocore/gronx"
)

func TestCronIsPunctual(t *testing.T) {
	for _, c := range []struct {
		name, spec, zone, from string
		want                   []string
	}{
		{"each minute", "* * * * *", "", "2026-03-02T09:00:00Z", []string{"2026-03-02T09:01:00Z", "2026-03-02T09:02:00Z"}},
		{"from the middle of a second", "* * * * *", "", "2026-03-02T09:00:59.5Z", []string{"2026-03-02T09:01:00Z"}},
		{"with seconds", "*/20 * * * * *", "", "2026-03-02T09:00:00Z", []string{"2026-03-02T09:00:20Z", "2026-03-02T09:00:40Z", "2026-03-02T09:01:00Z"}},
		{"lists, ranges and names", "0 8,17 * * MON-FRI", "", "2026-03-06T09:00:00Z", []string{"2026-03-06T17:00:00Z", "2026-03-09T08:00:00Z"}},
		{"a shorthand", "@monthly", "", "2026-03-02T09:00:00Z", []string{"2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z"}},
		{"a day or a weekday", "0 0 13 * FRI", "", "2026-03-07T00:00:00Z", []string{"2026-03-13T00:00:00Z", "2026-03-20T00:00:00Z", "2026-03-27T00:00:00Z"}},
		{"the last day of a month", "0 0 L * *", "", "2028-02-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z"}},
		{"the second Tuesday", "0 0 * * 2#2", "", "2026-03-02T00:00:00Z", []string{"2026-03-10T00:00:00Z", "2026-04-14T00:00:00Z"}},
		{"a leap day", "0 0 29 2 *", "", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		{"the last Friday", "0 0 * * FRIL", "", "2026-03-02T00:00:00Z", []string{"2026-03-27T00:00:00Z", "2026-04-24T00:00:00Z"}},
		{"the weekday next to the 15th", "0 0 15W * *", "", "2026-03-02T00:00:00Z", []string{"2026-03-16T00:00:00Z", "2026-04-15T00:00:00Z"}},
		{"names in small letters", "0 0 * feb-mar mon#1", "", "2026-03-02T09:00:00Z", []string{"2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"}},
		{"the longest steps", "*/60 */24 */31 */12 *", "", "2026-03-02T09:00:00Z", []string{"2027-01-01T00:00:00Z"}},
		{"white space around it", "\n 0\t0  1 1 *\r\n", "", "2026-03-02T09:00:00Z", []string{"2027-01-01T00:00:00Z"}},
		{"white space around a shorthand", " @Yearly\n", "", "2026-03-02T09:00:00Z", []string{"2027-01-01T00:00:00Z"}},
		{"a year", "0 0 1 1 * 2030", "", "2026-03-02T09:00:00Z", []string{"2030-01-01T00:00:00Z"}},
		{"in a zone", "30 9 * * *", "Asia/Kolkata", "2026-03-02T09:00:00Z", []string{"2026-03-03T04:00:00Z"}},

		// Berlin puts its clocks forward on 2026-03-29 at 02:00 (01:00 UTC), and back on
		// 2026-10-25 at 03:00 (01:00 UTC).
		{"nine o'clock stays nine o'clock", "0 9 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z", "2026-03-30T07:00:00Z"}},
		{"what the clocks skip runs at the change", "30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"the change itself, asked a second before", "30 2 * * *", "Europe/Berlin", "2026-03-29T00:59:59Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"what is skipped and the change itself are one run", "0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"}},
		{"what the clocks skip on another day does not matter", "30 2 1 * *", "Europe/Berlin", "2026-03-28T00:00:00Z", []string{"2026-04-01T00:30:00Z"}},
		{"what comes twice runs once, the first time", "30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z",
			[]string{"2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"every hour is every real hour, forward", "0 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"}},
		{"every hour is every real hour, back", "0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
		{"every half hour, back", "*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"}},
		{"midnight that does not exist", "0 0 * * *", "Asia/Beirut", "2026-03-28T00:00:00Z", []string{"2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"}},
		{"a change of half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:00:00Z",
			[]string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		{"a day that does not exist", "0 12 30 12 *", "Pacific/Apia", "2011-12-28T00:00:00Z", []string{"2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parseCron(c.spec, c.zone)
			if err != nil {
				t.Fatal(err)
			}
			from, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range c.want {
				next, ok := p.next(from)
				if !ok {
					t.Fatalf("there is none after %v", from)
				}
				if !next.After(from) {
					t.Fatalf("%v is not after %v", next, from)
				}
				got, from = append(got, next.Format(time.RFC3339)), next
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

func TestCronThatCannotRunIsRefusedWithItsPosition(t *testing.T) {
	for _, c := range []struct{ spec, zone, want string }{
		{"", "", "position 1: an expression has 5 to 7 fields, this has 0"},
		{"* * * *", "", "position 8: an expression has 5 to 7 fields, this has 4"},
		{"* * * * * * 2030 *", "", "position 18: an expression has 5 to 7 fields, this has 8"},
		{"61 * * * *", "", "position 1: minute"},
		{"0 24 * * *", "", "position 3: hour"},
		{"0 1,2,99 * * *", "", "position 7: hour"},
		{"0 0 32 * *", "", "position 5: day of month"},
		{"0 0 1 13 *", "", "position 7: month"},
		{"0  0   1 13 *", "", "position 10: month"},
		{"0 0 * * FRY", "", "position 9: day of week"},
		{"0 0 * * 8", "", "position 9: day of week"},
		{"*/0 * * * *", "", "position 1: minute"},
		{"* */ * * *", "", "position 3: hour"},
		{"5-1 * * * *", "", "position 1: minute"},
		{"1/2/3 * * * *", "", "position 1: minute"},
		{"-1 * * * *", "", "position 1: minute"},
		{"L * * * *", "", "position 1: minute"},
		{"0 0 L-3 * *", "", "position 5: day of month"},
		{"0 0 0W * *", "", "position 5: day of month"},
		{"0 0 1,32W * *", "", "position 7: day of month"},
		{"0 0 5L * *", "", "position 5: day of month"},
		{"0 0 * * 9L", "", "position 9: day of week"},
		{"0 0 * * MON,5#6", "", "position 13: day of week"},
		{"0 0 * * 8#1", "", "position 9: day of week"},
		{"0 0 * * L", "", "position 9: day of week"},
		{"*/61 * * * *", "", "position 1: minute"},
		{"0 1-5/9999 * * *", "", "position 3: hour"},
		{"0 0 0/5 * *", "", "position 5: day of month"},
		{"0 0 1 0/3 *", "", "position 7: month"},
		{"MON * * * *", "", "position 1: minute"},
		{"0 0 JAN * *", "", "position 5: day of month"},
		{"0 0 * MON *", "", "position 7: month"},
		{"0 0 * 1,1JAN *", "", "position 9: month"},
		{"0 0 * * MONTUE", "", "position 9: day of week"},
		{"* * * * *\x00", "", "position 9: day of week"},
		{"\u00a0* * * * *", "", "position 1: minute"},
		{"99999999999999999999 * * * *", "", "position 1: minute"},
		{"@fortnightly", "", "position 1: no such shorthand"},
		{"@every 5m", "", "position 1: no such shorthand"},
		{"* * * * * @daily", "", "position 11: no such shorthand"},
		{strings.Repeat("1,", 200) + "1 * * * *", "", "at most 256 bytes"},
		{"* * * * *", "Europe/Atlantis", "no such time zone"},
		{"* * * * *", "Local", "no such time zone"},
		{"* * * * *", "../../etc/passwd", "no such time zone"},
	} {
		_, err := parseCron(c.spec, c.zone)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrCron) && !errors.Is(err, ErrZone) {
			t.Errorf("%q: %v, want %q", c.spec, err, c.want)
		}
	}
}

func TestCronThatNeverMatchesEndsItsSearch(t *testing.T) {
	for _, spec := range []string{"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 1 1 * 2025", "0 0 29 2 * 2027", "0 0 0 31 2 * 2026-9999"} {
		p, err := parseCron(spec, "Europe/Berlin")
		if err != nil {
			t.Fatalf("%q: %v", spec, err)
		}
		began := time.Now()
		if at, ok := p.next(monday); ok {
			t.Errorf("%q matches %v", spec, at)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("%q: the search took %v", spec, d)
		}
	}
}

// Whatever is accepted is found where gronx finds it, in a zone whose clocks stand.
func FuzzCronAgreesWithGronx(f *testing.F) {
	for _, s := range []string{"* * * * *", "*/7 1-5 * * MON,3", "0 0 29 2 *", "5/9 * L * *", "0 0 * * 5L", "1 2 3W * *", "0 0 13 * 5", "10 20 30 1 1 * 2031", "@weekly"} {
		f.Add(s, int64(0))
	}
	f.Fuzz(func(t *testing.T, spec string, offset int64) {
		p, err := parseCron(spec, "")
		if err != nil {
			if !errors.Is(err, ErrCron) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		from := monday.Add(time.Duration(offset%1e9) * time.Second)
		at, ok := p.next(from)
		if !ok {
			return
		}
		if due, err := gronx.New().IsDue(spec, at); err != nil || !due {
			t.Fatalf("%q: gronx says that %v is not due: %v", spec, at, err)
		}
		if want, err := gronx.NextTickAfter(spec, from, false); err == nil && want.After(from) && want.Before(at) {
			if due, _ := gronx.New().IsDue(spec, want); due {
				t.Fatalf("%q after %v: got %v, and %v is due before", spec, from, at, want)
			}
		}
	})
}
