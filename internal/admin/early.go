package admin

import (
	"net/http"
)

// Early answers in place of an API while its host is coming up, to those whom the API
// would answer: Health and Ready of the options, and to all else that it is too early.
func Early(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", methods{http.MethodGet: o.Health})
	mux.Handle("/readyz", methods{http.MethodGet: o.Ready})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		write(w, &Error{Status: http.StatusServiceUnavailable, Text: "the host is starting", Hint: "ask again in a moment"})
	})
	return guard(o.Token, mux)
}
