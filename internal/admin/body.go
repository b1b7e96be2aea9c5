package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
)

// maxBody bounds a request, in bytes: the longest has a few short texts.
const maxBody = 64 << 10

// read takes a request's body apart: one JSON object, with nothing in it that is
// not known.
func read[T any](w http.ResponseWriter, r *http.Request) (v T, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return v, &Error{Status: http.StatusUnsupportedMediaType, Text: "the request is not of type application/json",
			Hint: "send the header Content-Type: application/json"}
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, misread(err, reflect.TypeFor[T]())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, &Error{Status: http.StatusBadRequest, Text: "something follows the JSON object", Hint: "send one object"}
	}
	return v, nil
}

// misread says in the words of the API what encoding/json has found wrong.
func misread(err error, t reflect.Type) *Error {
	bad := &Error{Status: http.StatusBadRequest, Hint: "the fields are " + strings.Join(fields(t), ", "), Err: err}
	name, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	typed, isTyped := errors.AsType[*json.UnmarshalTypeError](err)
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		bad.Status, bad.Text, bad.Hint = http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", maxBody), ""
	case unknown:
		bad.Text = strings.Trim(name, `"`) + ": unknown field"
	case isTyped && typed.Field == "":
		bad.Text = "the request is " + article(typed.Value) + ", not an object"
	case isTyped:
		field := typed.Field[strings.LastIndex(typed.Field, ".")+1:]
		bad.Text, bad.Hint = fmt.Sprintf("%s: is %s", field, article(typed.Value)), fmt.Sprintf("%s is %s", field, kinds[typed.Type.Kind()])
	case errors.Is(err, io.EOF):
		bad.Text = "the request is empty"
	default:
		bad.Text = "the request is not JSON: " + strings.TrimPrefix(err.Error(), "json: ")
	}
	return bad
}

// kinds are the types of fields in words.
var kinds = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Int: "a whole number", reflect.Float64: "a number",
}

// article is what encoding/json calls a value, in words.
func article(value string) string {
	if kind, number, ok := strings.Cut(value, " "); ok { // "number 1.5"
		return "the " + kind + " " + number
	}
	if strings.HasPrefix(value, "a") || strings.HasPrefix(value, "o") {
		return "an " + value
	}
	return "a " + value
}

// fields are the JSON names that a type takes.
func fields(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}
