package actor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
)

// response is the http.ResponseWriter that an object's handler gets.
type response struct {
	x       *exchange
	task    task
	me      *link // of the task; nil: there is none
	hook    hook  // the exchange hears of a reset until the response has left
	ctx     requestContext
	handler http.Handler
	first   leaving // with the first turn, and mostly the last
	header  http.Header
	status  int
	begun   bool  // the first part, with status and header, is on its way
	over    bool  // the handler has returned
	aborted error // it has given up
}

var errOver = errors.New("the handler has returned")

// code runs the handler. A handler that gives up, by the panic that net/http has for
// that, breaks the connection and not the object.
func (w *response) code(ctx context.Context) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			w.aborted = http.ErrAbortHandler
		} else if p != nil {
			panic(p)
		}
	}()
	r := w.x.r.WithContext(ctx)
	r.URL, r.Body = w.x.at, http.NoBody
	if len(w.x.body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(w.x.body))
	}
	w.handler.ServeHTTP(w, r)
}

func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *response) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // what net/http does
	}
	if w.status == 0 && status >= http.StatusOK { // one of 1xx is no answer
		w.status = status
	}
}

func (w *response) Write(p []byte) (n int, err error) {
	switch {
	case w.over:
		return 0, errOver
	case w.x.upgrade != nil:
		return 0, http.ErrHijacked
	case w.status == 0:
		w.WriteHeader(http.StatusOK)
	}
	for len(p) > 0 {
		some := p[:min(len(p), w.x.h.o.Web.MaxUnsent)]
		if err := w.wait(len(some)); err != nil {
			return n, err
		}
		if err := w.send(part{bytes: append([]byte(nil), some...)}); err != nil {
			return n, err
		}
		n += len(some)
		p = p[len(some):]
	}
	return n, nil
}

// wait returns when the client has taken so much that n more bytes fit.
func (w *response) wait(n int) error {
	for {
		if ok, err := w.x.held(n); ok || err != nil {
			return err
		}
		s := w.holder()
		if s == nil {
			if err := w.x.fits(n); err != nil {
				return err
			}
			continue
		}
		if s.nested > 0 {
			return s.fail("write", fmt.Errorf("%w: more than %d bytes of a response are written in a transaction", ErrTooLarge, w.x.h.o.Web.MaxUnsent),
				"answer when the transaction has ended: nothing leaves before")
		}
		if err := s.Await(w.x.r.Context(), func(context.Context) error { return w.x.fits(n) }); err != nil {
			return err
		}
	}
}

// Flush serves http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError serves http.ResponseController.
func (w *response) FlushError() error {
	switch {
	case w.over:
		return errOver
	case w.x.upgrade != nil:
		return http.ErrHijacked
	case w.status == 0:
		w.WriteHeader(http.StatusOK)
	}
	if err := w.send(part{flush: true}); err != nil {
		return err
	}
	s := w.holder()
	if s == nil {
		return nil
	}
	s.flush(s.turn)
	return s.inc.err()
}

func (w *response) holder() *State { return w.me.holder() }

// end has the rest of it leave, with the news that the handler has returned.
func (w *response) end(t *Turn) {
	w.ctx.end(nil)
	w.over = true
	if w.aborted == nil && w.x.upgrade == nil && w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	l := w.leaving(t)
	l.last = true
	if !w.begun && w.status != 0 {
		l.parts = append(l.parts, w.head(part{}))
	}
}

// head makes a part the first one, if it is.
func (w *response) head(p part) part {
	if !w.begun && w.status != 0 {
		w.begun = true
		p.status = w.status
		if len(w.header) > 0 {
			p.header = maps.Clone(w.header) // the handler may go on to change it
		}
	}
	return p
}

// send has a part leave: through the gate, or at once while the handler awaits,
// since an await begins when all that was written is durable.
func (w *response) send(p part) error {
	p = w.head(p)
	if w.me == nil {
		w.x.pass([]part{p}, false, nil)
		return nil
	}
	if gone := w.me.state.inc.err(); gone != nil {
		return gone
	}
	if s := w.holder(); s != nil {
		l := w.leaving(s.turn)
		l.parts = append(l.parts, p)
	} else {
		w.x.pass([]part{p}, false, nil)
	}
	return nil
}

// leaving is what of a response leaves with a turn.
type leaving struct {
	w     *response
	parts []part
	last  bool
	one   [1]part // most responses are no more
}

func (w *response) leaving(t *Turn) *leaving {
	if t.leaving == nil || t.leaving.w != w {
		l := &w.first
		if l.w != nil {
			l = &leaving{}
		}
		l.w, l.parts = w, l.one[:0]
		t.leaving = l
		t.out(l.leave)
	}
	return t.leaving
}

func (l *leaving) leave() {
	if l.last {
		l.w.hook.forget()
	}
	l.w.x.pass(l.parts, l.last, l.w.aborted)
}
