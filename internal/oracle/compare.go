package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
)

// An error's sentence is the platform's where callers of a stub read it, and is
// compared as it is. What an API says to the code that uses it wrongly is each
// API's own: such errors are compared by what they are.
var kinds = []struct {
	is      error
	name    string
	workerd *regexp.Regexp
}{
	{actor.ErrKey, "not a key", regexp.MustCompile(`RangeError: Keys cannot be larger than \d+ bytes\. A key of size \d+ was provided\.`)},
	{actor.ErrTooManyKeys, "too many keys", regexp.MustCompile(`RangeError: Maximum number of key value pairs is \d+\. \d+ pairs were provided\.`)},
	{actor.ErrTooLarge, "too large", regexp.MustCompile(`RangeError: Values cannot be larger than \d+ bytes\. A value of size \d+ was provided\.`)},
	{actor.ErrRange, "not a range", regexp.MustCompile(`TypeError: (list\(\) cannot be called with both start and startAfter values|List limit must be positive)\.`)},
	{alarm.ErrTime, "not a time", regexp.MustCompile(`TypeError: (setAlarm\(\) cannot be called with an alarm time <= 0|The value cannot be converted because it is not a valid Date\.)`)},
	{actor.ErrInvalidID, "not an id", regexp.MustCompile(`TypeError: Invalid Durable Object ID: must be 64 hex digits`)},
	{actor.ErrTag, "not a tag", regexp.MustCompile(`Error: ("t+" is longer than the max tag length \(256 characters\)\.|a Hibernatable WebSocket cannot have more than 10 tags)`)},
	{actor.ErrTooLarge, "too large", regexp.MustCompile(`Error: A WebSocket 'attachment' cannot be larger than \d+ bytes\.'attachment' was \d+ bytes\.`)},
	{actor.ErrTooLarge, "too large", regexp.MustCompile(`RangeError: (Request|Response) cannot be larger than \d+ bytes\. A (request|response) of size \d+ was provided\.`)},
	{actor.ErrClose, "not a close", regexp.MustCompile(`InvalidAccessError: Invalid WebSocket close code: \d+\.`)},
	{actor.ErrClose, "not a close", regexp.MustCompile(`SyntaxError: WebSocket close reason must not be longer than 123 bytes when UTF-8 encoded\.`)},
	{actor.ErrClosed, "closed already", regexp.MustCompile(`TypeError: Can't call WebSocket send\(\) after close\(\)\.`)},
	{actor.ErrWebSocket, "not acceptable", regexp.MustCompile("Error: Cannot call `acceptWebSocket\\(\\)` if the WebSocket was already accepted via `accept\\(\\)`")},
	{actor.ErrOtherID, "another class's id", regexp.MustCompile(`TypeError: Durable Object ID is not valid for this namespace\.`)},
}

// remote is said of errors that came over a stub. Here such an error is told by its
// type: it is no *actor.Error unless the object could not be reached or was reset.
var remote = strings.NewReplacer(" [remote]", "", "[remote ", "[")

// Comparable is what was seen on workerd, with the kinds of errors in the place of
// sentences that are no caller's business.
func Comparable(workerd string) string {
	for _, k := range kinds {
		workerd = k.workerd.ReplaceAllLiteralString(workerd, k.name)
	}
	return remote.Replace(workerd)
}

// describe describes an error of kalpa's as worker.mjs does.
func describe(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			return k.name
		}
	}
	e, is := errors.AsType[*actor.Error](err)
	if !is {
		return "Error: " + err.Error()
	}
	text := e.Cause.Sentence()
	if text == "" || e.Err != nil && (e.Cause == actor.Aborted || e.Cause == actor.ConstructorFailed) {
		text = e.Err.Error()
	}
	var flags []string
	if e.Retryable() {
		flags = append(flags, "retryable")
	}
	if e.Overloaded() {
		flags = append(flags, "overloaded")
	}
	if e.Reset() {
		flags = append(flags, "durableObjectReset")
	}
	if len(flags) > 0 {
		text += " [" + strings.Join(flags, " ") + "]"
	}
	return "Error: " + text
}

func marshal(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}
