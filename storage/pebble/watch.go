package pebble

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// watchEvery is how often the store looks whether its folder is still there.
const watchEvery = time.Second

var errFolderGone = errors.New("the folder was deleted or replaced while it was in use; what was acknowledged since then is lost")

// watch notices when the data folder goes away under the store: the engine would
// go on writing to files that nobody will find again, and acknowledge it all.
type watch struct {
	quit, ended chan struct{}
	once        sync.Once
}

// watchFolder calls lost, once, when the marker in dir is not the file that it is
// now.
func watchFolder(dir string, lost func(error)) (*watch, error) {
	marker := filepath.Join(dir, markerName)
	was, err := os.Stat(marker)
	if err != nil {
		return nil, err
	}
	w := &watch{quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-w.quit:
				return
			case <-tick.C:
			}
			is, err := os.Stat(marker)
			if err == nil && os.SameFile(was, is) || err != nil && !errors.Is(err, os.ErrNotExist) {
				continue
			}
			lost(errFolderGone)
			return
		}
	}()
	return w, nil
}

func (w *watch) stop() {
	if w != nil {
		w.once.Do(func() { close(w.quit) })
		<-w.ended
	}
}
