package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// What no setting may exceed, so that a slip of the pen is no default of its own, and
// so that every time of the policy can be stored.
const (
	maxDuration = 3650 * day
	maxCount    = 1_000_000
	maxSize     = 1 << 40

	day = 24 * time.Hour
)

// duration reads what time.ParseDuration reads, and days in front of it.
func duration(raw string) (time.Duration, error) {
	whole, rest, hasDays := strings.Cut(raw, "d")
	var days uint64
	var err error
	if !hasDays {
		rest = raw
	} else if days, err = strconv.ParseUint(whole, 10, 16); err == nil && rest == "" {
		rest = "0"
	}
	d, restErr := time.ParseDuration(rest)
	if err == nil {
		err = restErr
	}
	d += time.Duration(days) * day
	switch n, number := strconv.ParseFloat(raw, 64); {
	case err == nil && d < 0:
		return 0, fmt.Errorf("%s is negative", raw)
	case err == nil && d > maxDuration:
		return 0, fmt.Errorf("%s is more than %s", raw, short(maxDuration))
	case err == nil:
		return d, nil
	case number == nil && !math.IsNaN(n) && !math.IsInf(n, 0):
		return 0, fmt.Errorf("%s has no unit: write %ss or %sm", raw, raw, raw)
	default:
		return 0, fmt.Errorf("%q is not a duration, such as 90s, 5m, 1h30m or 30d", raw)
	}
}

// short writes a duration as a person would, and as duration reads it.
func short(d time.Duration) string {
	switch {
	case d == 0 || d == Never:
		return "0"
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	if before, ok := strings.CutSuffix(s, "m0s"); ok {
		s = before + "m"
	}
	if before, ok := strings.CutSuffix(s, "h0m"); ok {
		s = before + "h"
	}
	return s
}

func count(raw string) (int, error) {
	n, err := strconv.Atoi(raw)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n > maxCount:
		return 0, fmt.Errorf("%s is more than %d", raw, maxCount)
	case err != nil:
		return 0, fmt.Errorf("%q is not a whole number", raw)
	case n < 0:
		return 0, fmt.Errorf("%s is negative", raw)
	case n == 0:
		return 0, errZero
	}
	return n, nil
}

var (
	sizeShape = regexp.MustCompile(`^(\d+) ?([KMG]?i?B)?$`)
	units     = []string{"B", "KiB", "MiB", "GiB"}
)

func size(raw string) (int64, error) {
	parts := sizeShape.FindStringSubmatch(raw)
	if parts == nil {
		return 0, fmt.Errorf("%q is not a size, such as 512KiB, 64MiB or 1GiB", raw)
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err == nil && n == 0 {
		return 0, errZero
	}
	if parts[2] == "" {
		return 0, fmt.Errorf("%s has no unit: write %sKiB or %sMiB", raw, raw, raw)
	}
	for _, unit := range units {
		if err != nil || n > maxSize {
			return 0, fmt.Errorf("%s is more than %d GiB", raw, int64(maxSize>>30))
		}
		if unit == parts[2] {
			return n, nil
		}
		n <<= 10
	}
	return 0, fmt.Errorf("%s: sizes are in KiB, MiB and GiB here: write %siB", raw, strings.TrimSuffix(raw, "B"))
}

// orNone takes 0 as well, with a unit or without.
func orNone[T int | int64](n T, err error) (T, error) {
	if errors.Is(err, errZero) {
		return 0, nil
	}
	return n, err
}

var errZero = errors.New("must be more than 0")

func positive(raw string) error {
	if d, err := duration(raw); err == nil && d == 0 {
		return errZero
	}
	return nil
}

// Format writes a value of the setting's kind as a file does.
func (s *Setting) Format(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case time.Duration:
		return short(v)
	case int64:
		if v == 0 {
			return "0"
		}
		unit := 0
		for v != 0 && v%1024 == 0 && unit < len(units)-1 {
			v, unit = v/1024, unit+1
		}
		return fmt.Sprintf("%d%s", v, units[unit])
	case []string:
		return strings.Join(v, ",")
	case map[string]string:
		return "" // no setting has one as its default
	default:
		return fmt.Sprint(v)
	}
}
