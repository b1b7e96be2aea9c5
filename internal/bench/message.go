package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// answer is a response of JSON-RPC, its parts as they came.
type answer struct{ id, result, err string }

// payload takes the messages out of a body: of one message, or of events.
func payload(body []byte) (messages [][]byte) {
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '{' {
		return [][]byte{body}
	}
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data = bytes.TrimSpace(data); len(data) > 0 {
				messages = append(messages, data)
			}
		}
	}
	return messages
}

// pick finds the one answer among messages, which must have this id.
func pick(messages [][]byte, id int64) (a answer, err error) {
	found := 0
	for _, m := range messages {
		if !gjson.ValidBytes(m) {
			return a, fmt.Errorf("not JSON: %.200s", m)
		}
		parts := gjson.GetManyBytes(m, "method", "id", "result", "error")
		if !parts[0].Exists() {
			a = answer{id: parts[1].Raw, result: parts[2].Raw, err: parts[3].Raw}
			found++
		}
	}
	if found != 1 {
		return a, fmt.Errorf("%d answers came to one request", found)
	}
	if a.err != "" || a.result == "" || a.id != strconv.FormatInt(id, 10) {
		return a, fmt.Errorf("the request %d was answered with id %s, error %.200s", id, a.id, a.err)
	}
	return a, nil
}

// says checks that a tool has answered with this text.
func (a answer) says(want string) error {
	parts := gjson.GetMany(a.result, "isError", "content.#", "content.0.text")
	if parts[0].Bool() || parts[1].Int() != 1 || parts[2].Str != want {
		return fmt.Errorf("a tool answered %.200s, want %.200s", a.result, want)
	}
	return nil
}

const protocol = "2025-06-18"

const (
	initialization = `{"protocolVersion":"` + protocol + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`
	initialized    = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// appendRequest appends a request, and appendCall a call of a tool.
func appendRequest(to []byte, id int64, method, params string) []byte {
	to = strconv.AppendInt(append(to, `{"jsonrpc":"2.0","id":`...), id, 10)
	to = append(append(append(to, `,"method":"`...), method...), `","params":`...)
	return append(append(to, params...), '}')
}

func appendCall(to []byte, id int64, tool, arguments string) []byte {
	to = strconv.AppendInt(append(to, `{"jsonrpc":"2.0","id":`...), id, 10)
	to = append(append(append(to, `,"method":"tools/call","params":{"name":"`...), tool...), `","arguments":`...)
	return append(append(to, arguments...), "}}"...)
}

// appendPost appends a message as a POST of a session, of none if that is empty.
func appendPost(to []byte, address, path, session string, message []byte) []byte {
	to = append(append(to, "POST "...), path...)
	to = append(append(to, " HTTP/1.1\r\nHost: "...), address...)
	to = append(to, "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"...)
	if session != "" {
		to = append(append(append(to, "Mcp-Session-Id: "...), session...), "\r\nMCP-Protocol-Version: "+protocol+"\r\n"...)
	}
	to = strconv.AppendInt(append(to, "Content-Length: "...), int64(len(message)), 10)
	return append(append(to, "\r\n\r\n"...), message...)
}

// kilobyte is a text of 1 KiB.
var kilobyte = strings.Repeat("kalpa is an epoch", 61)[:1<<10]
