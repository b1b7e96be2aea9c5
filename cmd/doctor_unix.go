//go:build unix

package cmd

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// openFiles are the limits of open files. (Go raises the soft one by itself.)
func openFiles() (soft, hard uint64, known bool) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0, 0, false
	}
	return uint64(l.Cur), uint64(l.Max), true //nolint:unconvert // other systems have other types
}

func (d *diagnosis) space(dir string) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return
	}
	free, all := uint64(s.Bavail)*uint64(s.Bsize), uint64(s.Blocks)*uint64(s.Bsize) //nolint:unconvert // other systems have other types
	text := fmt.Sprintf("%s free of %s in %s", bytesOf(int64(free)), bytesOf(int64(all)), dir)
	switch {
	case s.Files > 0 && s.Ffree < 1000:
		d.add("space", "problem", fmt.Sprintf("%d more files can be made in %s", s.Ffree, dir), "make room: a host ends when the disk is full")
	case free < littleDisk:
		d.add("space", "warning", text, "make room: a host ends when the disk is full")
	default:
		d.add("space", "ok", text, "")
	}
}
