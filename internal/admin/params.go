package admin

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// params are a request's parameters; one that is not known is an error.
func params(r *http.Request, known ...string) (url.Values, error) {
	q := r.URL.Query()
	for key := range q {
		if !slices.Contains(known, key) {
			return nil, wrong(key, "the parameters are "+list(known), "unknown parameter")
		}
	}
	return q, nil
}

func list(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return strings.Join(words, "")
}

// pageOf is the size of the page that is asked for.
func pageOf(q url.Values) (int, error) {
	if !q.Has("limit") {
		return DefaultPage, nil
	}
	n, err := strconv.Atoi(q.Get("limit"))
	if err != nil || n < 1 || n > MaxPage {
		return 0, wrong("limit", "1 to "+strconv.Itoa(MaxPage), "%q is not the size of a page", q.Get("limit"))
	}
	return n, nil
}

// truth is a parameter that is true or false.
func truth(q url.Values, name string) (bool, error) {
	switch q.Get(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, wrong(name, "true or false", "%q is neither", q.Get(name))
}

// upTo is a parameter that is a number from 0, which it is by default.
func upTo(q url.Values, name string, most int) (int, error) {
	if !q.Has(name) {
		return 0, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 0 || n > most {
		return 0, wrong(name, "0 to "+strconv.Itoa(most), "%q is none", q.Get(name))
	}
	return n, nil
}

// A cursor is bytes that only this API reads.
func cursor(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func cursorOf(q url.Values) ([]byte, error) {
	b, err := base64.RawURLEncoding.DecodeString(q.Get("after"))
	if err != nil {
		return nil, wrong("after", "leave it out, or take what the page before has named", "%q does not come from this API", q.Get("after"))
	}
	return b, nil
}
