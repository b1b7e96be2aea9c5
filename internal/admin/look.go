package admin

import (
	"net/http"
	"strconv"

	"github.com/kalpahost/kalpa/mcp/session"
)

func (a *api) isolates(http.ResponseWriter, *http.Request) (any, error) {
	all := Isolates{Isolates: []Isolate{}}
	for n := range a.o.Host.Isolates() {
		is := a.o.Host.Isolate(n)
		one := Isolate{Number: n, Resident: a.o.Sessions.ResidentsIn(n), Heap: is.Heap, HeapLimit: is.HeapLimit}
		for _, objects := range is.Objects {
			one.Objects += objects
		}
		all.Isolates = append(all.Isolates, one)
	}
	return all, nil
}

func (a *api) sessions(_ http.ResponseWriter, r *http.Request) (any, error) {
	limit := DefaultPage
	for key, values := range r.URL.Query() {
		switch key {
		case "after":
		case "limit":
			n, err := strconv.Atoi(values[0])
			if err != nil || n < 1 || n > MaxPage {
				return nil, wrong("limit", "1 to "+strconv.Itoa(MaxPage), "%q is not the size of a page", values[0])
			}
			limit = n
		default:
			return nil, wrong(key, "the parameters are limit and after", "unknown parameter")
		}
	}
	found, next, err := a.o.Sessions.List(r.Context(), session.Query{After: r.URL.Query().Get("after"), Limit: limit})
	if err != nil {
		return nil, err
	}
	page := Sessions{Sessions: []Session{}, Next: next}
	for _, s := range found {
		page.Sessions = append(page.Sessions, Session{
			ID: s.ID, Server: s.Server, State: string(s.Presence), Isolate: s.Isolate, Epoch: s.Epoch, Owed: s.Owed, Created: s.Created, Activity: s.Activity,
		})
	}
	return page, nil
}
