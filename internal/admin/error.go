package admin

import (
	"fmt"
	"net/http"
)

// Error is what the API answers when it does not do what it was asked, and what
// the client returns: what is wrong, and what to do about it.
type Error struct {
	Status int    `json:"-"` // of HTTP; 0: no answer was got
	Text   string `json:"error"`
	Hint   string `json:"hint,omitempty"`
	Err    error  `json:"-"`
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Err }

// Usage: what was asked makes no sense, whatever the host's state.
func (e *Error) Usage() bool { return e.Status == http.StatusBadRequest }

// wrong is a field with a value that it can't have.
func wrong(field, hint, text string, a ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Text: field + ": " + fmt.Sprintf(text, a...), Hint: hint}
}

func notFound(hint, text string, a ...any) *Error {
	return &Error{Status: http.StatusNotFound, Text: fmt.Sprintf(text, a...), Hint: hint}
}
