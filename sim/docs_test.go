package sim

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What docs/simulation.md says can be planned is what can be.
func TestDocsKnowWhatCanBePlanned(t *testing.T) {
	page, err := os.ReadFile("../docs/simulation.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, name := range slices.Concat(Profiles(), Tools, sortedKeys(faults)) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s is missing", name)
		}
	}
	for _, kind := range Kinds {
		if !strings.Contains(text, string(kind)+" (") {
			t.Errorf("clients of the kind %s are missing", kind)
		}
	}
	example := regexp.MustCompile(`(?m)^    kalpa plan 1\n(    .*\n)*`).FindString(text)
	p, err := ReadPlan(strings.NewReader(regexp.MustCompile(`(?m)^    `).ReplaceAllString(example, "")))
	if err != nil {
		t.Fatalf("the example: %v", err)
	}
	r, err := Run(p, Options{})
	if err != nil || r.Violation != nil {
		t.Fatalf("the example: %v, %v", err, r.Violation)
	}
	// It shows what it is there for: a crash, a reset in the middle, and answers all the same.
	if r.Boots != 2 || r.Lost == 0 || r.Answered == 0 || r.Open != 0 {
		t.Errorf("the example comes to %d starts, %d lost, %d answered, %d open", r.Boots, r.Lost, r.Answered, r.Open)
	}
}
