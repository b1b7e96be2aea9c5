package config

import (
	"slices"
	"strings"
)

// Nearest returns the candidate that a mistyped word most likely means, and whether
// one is near enough to be worth a suggestion.
func Nearest(word string, candidates []string) (string, bool) {
	best, bestDistance := "", len(word)/3+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if bare(word) == bare(c) {
			return c, true
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance || d == bestDistance && best == "" && d < len(c) {
			best, bestDistance = c, d
		}
	}
	return best, best != ""
}

// bare drops what people vary in a name: idleTimeout, idle-timeout, IDLE_TIMEOUT.
func bare(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(s))
}

// distance counts the insertions, deletions, substitutions and swaps of neighbours
// that make one word of the other.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := 1
			if a[i-1] == b[j-1] {
				substitution = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+substitution)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

// didYouMean is the end of a message about an unknown word.
func didYouMean(word string, candidates []string) string {
	if c, ok := Nearest(word, candidates); ok {
		return "did you mean " + c + "?"
	}
	return "known here: " + strings.Join(candidates, ", ")
}
