package main

import (
	"strings"
	"testing"
)

const (
	measured = "HTTP/1.1 200 OK\r\nDate: now\r\ncontent-length: 2\r\n\r\nok"
	chunked  = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n0B\r\nk0\r\n\r\nmore!\r\n0\r\n\r\n"
)

func TestAnAnswerIsParsed(t *testing.T) {
	for good, want := range map[string]string{measured: "ok", "HTTP/1.1 204 No Content\r\n\r\n": "", chunked: "ok0\r\n\r\nmore!"} {
		for n := range len(good) {
			if _, whole, err := parse([]byte(good[:n])); whole || err != nil {
				t.Fatalf("%q: whole %v, %v", good[:n], whole, err)
			}
		}
		if r, whole, err := parse([]byte(good)); r.status/100 != 2 || string(r.body) != want || !whole || err != nil {
			t.Errorf("%d %q, whole %v, %v", r.status, r.body, whole, err)
		}
	}
	for _, bad := range []string{
		measured + "more",
		"SPDY/9 200 OK\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		strings.Replace(measured, "2\r\n\r\n", "-2\r\n\r\n", 1),
		strings.Replace(chunked, "1\r\n", "x\r\n", 1),
		strings.Replace(chunked, "1\r\n", "2\r\n", 1),
	} {
		if _, whole, err := parse([]byte(bad)); whole || err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestAFieldIsFound(t *testing.T) {
	r, _, err := parse([]byte(measured))
	if err != nil || string(r.field([]byte("date"))) != "now" || r.field([]byte("dat")) != nil {
		t.Errorf("%q, %q, %v", r.field([]byte("date")), r.field([]byte("dat")), err)
	}
}
