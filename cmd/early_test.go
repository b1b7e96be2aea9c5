package cmd

import (
	"testing"

	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/mcp/session"
)

// What a plugin says of its tools is the program's own word; what a command says is not.
func TestOnlyPluginsAreTakenAtTheirWord(t *testing.T) {
	for _, tc := range []struct {
		is   config.Server
		want session.Early
	}{
		{config.Server{Plugin: "p"}, session.EarlyReadOnly},
		{config.Server{Plugin: "p", Early: "never"}, session.EarlyNever},
		{config.Server{Command: "c"}, ""},
		{config.Server{Command: "c", Early: "read-only"}, session.EarlyReadOnly},
	} {
		if got := serverOf(tc.is).Early; got != tc.want {
			t.Errorf("%+v: early is %q, want %q", tc.is, got, tc.want)
		}
	}
}
