package main

import (
	"strings"
	"testing"
)

func TestReplaceKeepsTheProse(t *testing.T) {
	page := "# Title\n\nbefore\n\n" + opening("a") + "old\n" + closing("a") + "\n\nbetween\n\n" +
		opening("b") + closing("b") + "\nafter\n"
	got, err := replace(page, "a", "new\n")
	if err != nil {
		t.Fatal(err)
	}
	want := "# Title\n\nbefore\n\n<!-- figures of a -->\n\nnew\n\n<!-- end of a -->\n\nbetween\n\n" +
		"<!-- figures of b -->\n<!-- end of b -->\nafter\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, err := replace(got, "a", "new\n")
	if err != nil || again != got {
		t.Errorf("the second time it is different: %v\n%s", err, again)
	}
}

func TestReplaceNeedsBothMarksOnce(t *testing.T) {
	whole := opening("a") + closing("a") + "\n"
	for name, page := range map[string]string{
		"no opening": closing("a"),
		"no closing": opening("a") + closing("b"),
		"wrong way":  closing("a") + "\n" + opening("a"),
		"twice":      whole + whole,
	} {
		if got, err := replace(page, "a", "x"); err == nil {
			t.Errorf("%s: got %q and no error", name, got)
		}
	}
}

func TestTable(t *testing.T) {
	got := table([][]string{{"server", "calls"}, {"a|b", "1"}})
	want := "| server | calls |\n|---|---|\n| a\\|b | 1 |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCommandIsWhatGivesTheFigure(t *testing.T) {
	if got, want := command("start", nil, false), "make bench BENCH='-only start'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got := command("calls", [][2]string{{"rounds", "3"}, {"d", "2s"}}, true)
	if want := "make bench PEERS=<folder> BENCH='-only calls -rounds 3 -d 2s'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if strings.ContainsAny(got, "\n") {
		t.Error("a command is one line")
	}
}
