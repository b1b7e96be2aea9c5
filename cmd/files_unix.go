//go:build unix

package cmd

import "syscall"

// grantedFiles is how many files this process may have open.
func grantedFiles() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 1 << 20
	}
	return l.Cur
}
