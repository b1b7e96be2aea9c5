package pebble

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kalpahost/kalpa/storage"
)

// The engine says all of its tables' mistakes at once, a line for each.
func TestEachBadTableIsNamed(t *testing.T) {
	t.Parallel()
	said := errors.Join(
		errors.New("L0: 000059: file 000059 (type sstable) unknown to the objstorage provider: file does not exist"),
		errors.New("L6: 000053: object size mismatch (d/000053.sst): 8631 (disk) != 8640 (MANIFEST)"),
	)
	var got []string
	unreadable(&storage.Error{Err: fmt.Errorf("%w: %w", storage.ErrDamaged, said)}, func(f storage.Finding) {
		got = append(got, f.About+": "+f.What)
	})
	want := []string{
		"the table 000059.sst: is gone",
		"the table 000053.sst: object size mismatch (d/000053.sst): 8631 (disk) != 8640 (MANIFEST)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}
