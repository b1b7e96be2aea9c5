//go:build seams

package cmd

import (
	"os"

	"github.com/kalpahost/kalpa/internal/seams"
)

// takenOut is what tests have taken out of a program that they have built with the
// tag seams: the names in KALPA_SEAMS, separated by commas.
func takenOut() (seams.Seams, error) {
	s, err := seams.Parse(os.Getenv("KALPA_SEAMS"))
	if err != nil {
		return s, &usageError{err: err, hint: "KALPA_SEAMS is a list of them, separated by commas"}
	}
	return s, nil
}
