package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// How often a delivery is tried, and when: after 1, 2, 4 and 8 seconds, and up to a
// quarter more.
const (
	attempts = 5
	pause    = time.Second
	patience = 10 * time.Second // of one attempt
)

// queue is an object: its jobs are rows, and what is to be tried when is its schedule,
// which its alarm fires. Both survive whatever happens to the program.
type queue struct{ state *actor.State }

// job is one delivery.
type job struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	Body  string `json:"body"`
	State string `json:"state"` // waiting, done or failed
	Tried int    `json:"tried"`
	Error string `json:"error,omitempty"` // of the last attempt
}

var (
	queues = actor.Define("queue", func(_ context.Context, s *actor.State) (*queue, error) { return &queue{s}, nil })

	deliver = actor.Callback(queues, "deliver", (*queue).deliver)
)

// ServeHTTP takes jobs by POST, lists them by GET and shows one at GET /ID. POST takes
// the URL as ?to=, and ?after= may have a delay.
func (q *queue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var (
		answer any
		err    error
	)
	switch id := strings.TrimPrefix(r.URL.Path, "/"); {
	case r.Method == http.MethodPost && id == "":
		answer, err = q.add(r)
	case r.Method == http.MethodGet && id == "":
		answer, err = q.list()
	case r.Method == http.MethodGet:
		answer, err = q.job(id)
	default:
		err = refused{http.StatusMethodNotAllowed, "POST adds, GET lists."}
	}
	if no := (refused{}); errors.As(err, &no) {
		http.Error(w, no.text, no.status)
		return
	} else if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// refused is an error of the client's.
type refused struct {
	status int
	text   string
}

func (r refused) Error() string { return r.text }

// add keeps a job and schedules it, in one commit: when it is answered, it will be
// delivered.
func (q *queue) add(r *http.Request) (*job, error) {
	to, err := url.Parse(r.URL.Query().Get("to"))
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, refused{http.StatusBadRequest, "?to= is not a URL."}
	}
	after := time.Duration(0)
	if s := r.URL.Query().Get("after"); s != "" {
		if after, err = time.ParseDuration(s); err != nil {
			return nil, refused{http.StatusBadRequest, "?after= is not a duration, such as 90s."}
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(body) {
		return nil, refused{http.StatusUnsupportedMediaType, "The body is not UTF-8."} // JSON would change it
	}
	id := fmt.Sprintf("%x", time.Now().UnixNano())
	j := &job{ID: id, URL: to.String(), Body: string(body), State: "waiting"}
	// Without the transaction an error would leave what was done before it.
	err = q.state.Transaction(r.Context(), func(context.Context) error {
		if err := q.keep(j); err != nil {
			return err
		}
		_, err := deliver.In(q.state, after, id, alarm.WithID(id), alarm.WithRetry(attempts, pause), alarm.WithLimit(patience))
		return err
	})
	if errors.Is(err, actor.ErrTooLarge) {
		return nil, refused{http.StatusRequestEntityTooLarge, "The job is too large to be kept."}
	}
	return j, err
}

// deliver makes one attempt. An error has the schedule try it again.
func (q *queue) deliver(ctx context.Context, id string) error {
	j, err := q.job(id)
	if err != nil {
		return err
	}
	// The queue takes other jobs meanwhile. Whoever gets the delivery may get it twice:
	// the program may end between the delivery and its being written down.
	failed := q.state.Await(ctx, func(ctx context.Context) error { return post(ctx, j) })
	j.Tried++
	switch {
	case failed == nil:
		j.State, j.Error = "done", ""
	case j.Tried == attempts:
		j.State, j.Error = "failed", failed.Error()
	default:
		j.Error = failed.Error()
	}
	return errors.Join(failed, q.keep(j))
}

func post(ctx context.Context, j *job) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, j.URL, bytes.NewReader([]byte(j.Body)))
	if err != nil {
		return err
	}
	r.Header.Set("Idempotency-Key", j.ID)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("it answered %s", res.Status)
	}
	return nil
}

func (q *queue) keep(j *job) error {
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return q.state.Put("job/"+j.ID, b)
}

func (q *queue) job(id string) (*job, error) {
	b, err := q.state.Get("job/" + id)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, refused{http.StatusNotFound, "There is no such job."}
	}
	j := &job{}
	return j, json.Unmarshal(b, j)
}

func (q *queue) list() ([]*job, error) {
	all := []*job{}
	for e, err := range q.state.List(storage.Range{Prefix: "job/", Limit: 100}) {
		if err != nil {
			return nil, err
		}
		j := &job{}
		if err := json.Unmarshal(e.Value, j); err != nil {
			return nil, err
		}
		all = append(all, j)
	}
	return all, nil
}
