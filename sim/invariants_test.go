package sim

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// What a report says was looked at is what the checks look at.
func TestInvariantsAreThoseOfTheChecks(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{Panicked: true}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`violate\("(\w+)"`).FindAllSubmatch(source, -1) {
			found[string(m[1])] = true
		}
	}
	checked := slices.Sorted(maps.Keys(found))
	if said := slices.Sorted(slices.Values(Invariants)); !slices.Equal(said, checked) {
		t.Errorf("Invariants names %q; violations are told of %q", said, checked)
	}
}
