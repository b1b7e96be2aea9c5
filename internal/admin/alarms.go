package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// lastAlarm is after every alarm.
var lastAlarm = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

func (a *api) alarms(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := params(r, "limit", "after", "class", "name")
	if err != nil {
		return nil, err
	}
	limit, err := pageOf(q)
	if err != nil {
		return nil, err
	}
	all := Alarms{Alarms: []Alarm{}}
	if q.Has("class") || q.Has("name") {
		id, err := one(q)
		if err != nil {
			return nil, err
		}
		row, err := a.o.Host.Store().Alarm(r.Context(), id)
		if err != nil {
			return nil, err
		}
		if !row.At.IsZero() {
			all.Alarms = append(all.Alarms, Alarm{id.Class, id.Name, row.At, row.Retry})
		}
		return all, nil
	}
	raw, err := cursorOf(q)
	if err != nil {
		return nil, err
	}
	var after storage.Cursor
	if len(raw) > 0 && json.Unmarshal(raw, &after) != nil {
		return nil, wrong("after", "leave it out, or take what the page before has named", "it does not come from this API")
	}
	due, err := a.o.Host.Store().Due(r.Context(), after, lastAlarm, limit+1)
	if err != nil {
		return nil, err
	}
	if len(due) > limit {
		due = due[:limit]
		next, err := json.Marshal(storage.Cursor{At: due[limit-1].At, ID: due[limit-1].ID})
		if err != nil {
			return nil, err
		}
		all.Next = cursor(next)
	}
	for _, d := range due {
		all.Alarms = append(all.Alarms, Alarm{d.ID.Class, d.ID.Name, d.At, d.Retry})
	}
	return all, nil
}
