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
	for _, name := range slices.Concat(Profiles(), Tools, Calls, sortedKeys(faults)) {
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

// The table of faults names what there is to plan and to count, and leaves no fault out.
func TestDocsSayHowThingsGoWrong(t *testing.T) {
	page, err := os.ReadFile("../docs/simulation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## What goes wrong")
	table, _, _ = strings.Cut(table, "\n## ")
	plannable := slices.Concat(sortedKeys(faults), Tools, Calls, []string{"world", "leave", "window", "buildfails", "owed"})
	for _, kind := range Kinds {
		plannable = append(plannable, string(kind))
	}
	counted := Sometimes()
	quoted := regexp.MustCompile("`([^`]+)`")
	named := map[string]bool{}
	rows := 0
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], " what") || strings.HasPrefix(cells[1], "--") {
			continue
		}
		rows++
		for i, known := range map[int][]string{3: plannable, 4: counted} {
			names := quoted.FindAllStringSubmatch(cells[i], -1)
			if len(names) == 0 {
				t.Errorf("%s: names nothing", cells[1])
			}
			for _, m := range names {
				named[m[1]] = true
				if !slices.Contains(known, m[1]) {
					t.Errorf("%s: there is no %s", cells[1], m[1])
				}
			}
		}
	}
	if rows < 25 {
		t.Errorf("%d rows", rows)
	}
	for _, kind := range sortedKeys(faults) {
		if !named[kind] {
			t.Errorf("the fault %s is missing", kind)
		}
	}
}
