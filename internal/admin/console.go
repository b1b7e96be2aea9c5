package admin

import (
	"net/http"
	"slices"
	"strings"
)

// ConsolePaths are where the console is: patterns of http.ServeMux.
var ConsolePaths = []string{"/{$}", "/console", "/console/"}

// consoles tells whether a request is for the console's files, which say nothing of the
// host.
func consoles(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(slices.Contains([]string{"/", "/console"}, r.URL.Path) || strings.HasPrefix(r.URL.Path, "/console/"))
}
