package cmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress is a line that is drawn again and again while something goes on. Nothing
// is drawn where nobody looks: a pipe, a file.
type progress struct {
	w     io.Writer // nil: nobody looks
	began time.Time
	drawn time.Time
}

func newProgress(w io.Writer) *progress {
	p := &progress{began: time.Now()}
	if isTerminal(w) {
		p.w = w
	}
	return p
}

// isTerminal reports that a person may be looking.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// set draws the line: done of all (0: nobody knows how many there will be), and what
// else there is to say.
func (p *progress) set(done, all int, text string) {
	now := time.Now()
	if p.w == nil || now.Sub(p.drawn) < 100*time.Millisecond && done != all {
		return
	}
	p.drawn = now
	fmt.Fprintf(p.w, "\r%s  %s\x1b[K", bar(done, all, now.Sub(p.began)), text)
}

// bar is the part of the line that grows.
func bar(done, all int, since time.Duration) string {
	if all == 0 {
		return fmt.Sprintf("%d, %v", done, since.Round(time.Second))
	}
	const width = 30
	full := width * done / all
	s := fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("#", full), strings.Repeat(".", width-full), done, all)
	if done > 0 && done < all {
		left := since * time.Duration(all-done) / time.Duration(done)
		s += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return s
}

// clear takes the line away.
func (p *progress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
