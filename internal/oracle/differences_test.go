package oracle

import (
	"slices"
	"strings"
	"testing"
)

func TestTheListOfDifferencesIsChecked(t *testing.T) {
	got, err := parseDifferences("# a comment\na | meant | 0001.md#why | because | of it\nb | bug | - | should not\nc | pending | - | later\n")
	if err != nil || len(got) != 3 || got["a"] != (Difference{Meant, "0001.md#why", "because | of it"}) || got["c"].State != Pending {
		t.Errorf("%v %v", got, err)
	}
	for text, want := range map[string]string{
		"a | meant":                                   "differences.txt:1: it is not",
		"# \na | perhaps | - | why":                   "differences.txt:2: there is no state",
		"a | meant | - | without a decision":          "what is meant has a decision",
		"a | bug | 0001.md | with one":                "what is meant has a decision",
		"a | bug | - | ":                              "all have a reason",
		"a | bug | - | once\na | bug | - | and twice": "differences.txt:2: a is there twice",
	} {
		if _, err := parseDifferences(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestWhatKalpaHasNothingForIsKnown(t *testing.T) {
	p, err := Parse("object a\n  alarm\n    sql select\ncall 1 a\n  transaction\n    fly\n  put x 1\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := Unsupported(p); !slices.Equal(got, []string{"fly", "sql"}) {
		t.Errorf("it has nothing for %q", got)
	}
}
