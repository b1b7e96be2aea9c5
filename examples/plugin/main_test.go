package main

import (
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/mcp/gosdk/gosdktest"
)

func TestNotesOutliveTheRuntime(t *testing.T) {
	p, state := plugin(), new(gosdktest.State)
	first := gosdktest.Start(t, p, gosdktest.Options{State: state})
	if got := first.Call("list_notes", nil).Text(); got != `{"notes":[]}` {
		t.Errorf("before any note: %s", got)
	}
	first.Call("add_note", note{"milk"})
	first.Call("add_note", note{"bread"})
	first.Close()

	second := gosdktest.Start(t, p, gosdktest.Options{State: state})
	if got := second.Call("list_notes", nil).Text(); got != `{"notes":[{"text":"milk"},{"text":"bread"}]}` {
		t.Errorf("in the next runtime: %s", got)
	}
	other := gosdktest.Start(t, p, gosdktest.Options{ID: "other"})
	if got := other.Call("list_notes", nil).Text(); got != `{"notes":[]}` {
		t.Errorf("in another session: %s", got)
	}
}

func TestANoteNeedsAText(t *testing.T) {
	h := gosdktest.Start(t, plugin(), gosdktest.Options{})
	if got := h.Call("add_note", struct{}{}); !got.IsError || !strings.Contains(got.Text(), "text") {
		t.Errorf("add_note: %s", got)
	}
}
