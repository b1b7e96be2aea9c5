package oracle

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = "../../docs/compatibility.md"

func TestThePageIsWhatTheTranscriptsSay(t *testing.T) {
	files := read(t)
	listed, err := Differences()
	if err != nil {
		t.Fatal(err)
	}
	want := Page(files, listed)
	if *record {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is not what the transcripts say (-page +transcripts; go test ./internal/oracle -record rewrites it): %v\n%s", page, err, cmp.Diff(string(got), want))
	}
}

// The least that there has to be, by what it is about.
func TestProgramsCoverEveryArea(t *testing.T) {
	files := read(t)
	if len(files) < 120 {
		t.Errorf("there are %d programs, and were to be 120 at least", len(files))
	}
	in := map[string]int{}
	for _, f := range files {
		in[f.Area()]++
		if f.Workerd == "" {
			t.Errorf("%s says nothing of workerd: make oracle-record", f.Name)
		}
		if f.Title == "" {
			t.Errorf("%s does not say what it shows", f.Name)
		}
	}
	for _, a := range areas {
		if in[a.name] < 8 {
			t.Errorf("%d programs are about %s", in[a.name], a.name)
		}
		delete(in, a.name)
	}
	for name, n := range in {
		t.Errorf("%d programs are about %q, which the page does not know", n, name)
	}
}

func TestDifferencesAreSaidOnce(t *testing.T) {
	for _, f := range read(t) {
		listed, err := Differences()
		if err != nil {
			t.Fatal(err)
		}
		if d := listed[f.Name]; (f.Kalpa != "") != slices.Contains([]State{Meant, Bug}, d.State) {
			t.Errorf("%s: the file has a part for kalpa: %t; in the list it is %q", f.Name, f.Kalpa != "", d.State)
		}
	}
}
