package admin

import (
	"net/http"
	"time"
)

// backup is GET /v1/backup: the store as it is between two commits, as a tar archive.
// One that is cut off has no list of its files at its end, and is no backup.
func (a *api) backup(w http.ResponseWriter, r *http.Request) {
	switch {
	case a.o.Store == nil:
		a.fail(w, r, notFound("", "this host's store can't be backed up"))
		return
	case !a.backingUp.TryLock():
		a.fail(w, r, &Error{Status: http.StatusConflict, Text: "a backup is under way", Hint: "wait for it"})
		return
	}
	defer a.backingUp.Unlock()
	began := time.Now()
	a.o.Logger.Info("a backup begins")
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Cache-Control", "no-store")
	b, err := a.o.Store.Backup(r.Context(), w)
	if err != nil {
		a.o.Logger.Error("a backup failed", "error", err)
		panic(http.ErrAbortHandler) // what has been sent must not look whole
	}
	a.o.Logger.Info("a backup is done", "bytes", b.Size(), "files", len(b.Files), "took", time.Since(began))
}
