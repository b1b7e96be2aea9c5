package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhetherATargetIsMetIsComputed(t *testing.T) {
	two := target{"work", "peer", "1.5x, p99 no worse", "calls", []bound{atLeast(1.5, "%s times as fast"), atMost(1, "p99 %s times as long")}}
	for _, c := range []struct {
		fast, late float64
		want       string
	}{
		{1.5, 1, "met"},
		{1.4, 1, "**not met**, by a factor of 1.07"},
		{3, 1.25, "**not met**, by a factor of 1.25"},
		{1, 2, "**not met**, by a factor of 2.00"},
	} {
		row := two.row([]spread{{c.fast, 0.1, 9}, {c.late, 0.1, 9}}, "command")
		if row[4] != c.want {
			t.Errorf("%v times as fast, p99 %v times: %s, want %s", c.fast, c.late, row[4], c.want)
		}
	}
	if row := targetLasting.row([]spread{{1, 1, 1}, {1, 1, 1}, {3, 3, 3}}, ""); row[4] != "met so far" {
		t.Errorf("three minutes of an hour are %q", row[4])
	}
	for _, found := range [][]spread{{summarize(nil), {1, 1, 1}}, {{2, 2, 2}, summarize(nil)}} {
		if row := two.row(found, ""); row[4] != "not measured" {
			t.Errorf("what was not measured is %q", row[4])
		}
	}
}

func TestATargetsRowReplacesItsOwnAlone(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page")
	if err := os.WriteFile(page, []byte(opening("targets")+closing("targets")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &bench{out: page, command: func(part string, _ bool) string { return "measure " + part }}
	one := func(v float64) spread { return spread{v, v, v} }
	for _, v := range []float64{1.2, 1.7} {
		if err := b.found(targetSDK, one(v)); err != nil {
			t.Fatal(err)
		}
		if err := b.found(targetStart, one(v*1000)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 1.70 times as fast | met | `measure calls` |", "| 1,700 ms | met | `measure start` |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if rows := strings.Count(string(text), "\n| "); rows != len(targets)+1 {
		t.Errorf("%d rows of %d targets and a heading:\n%s", rows, len(targets), text)
	}
}
