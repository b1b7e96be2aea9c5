package cmd

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineMemory is the memory that this process may have in all, in bytes: the
// machine's, or that of the control group it is in. 0: not known.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	var all int64
	if unix.Sysinfo(&info) == nil {
		all = int64(info.Totalram) * int64(info.Unit)
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if b, err := os.ReadFile(path); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && (all == 0 || n < all) {
				all = n
			}
		}
	}
	return all
}
