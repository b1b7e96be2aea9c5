package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/internal/soak"
)

// A soak of a host whose ledger is taken out finds that calls are not answered: what it
// says of one that is whole is worth something. make soak runs that one.
func TestASoakFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	s := soak.Soak{Program: program(t, kalpaSeams), Env: []string{"KALPA_SEAMS=no-ledger"}, Seed: 1, Storms: soak.Small}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Failures, func(f string) bool { return strings.Contains(f, "was accepted, and is not answered") }) {
		t.Errorf("it found %q", r.Failures)
	}
}
