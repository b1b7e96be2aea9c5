package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// machine is what the figures were measured on: what a reader needs to judge them,
// and nothing that names it.
func machine(folder string) (string, error) {
	syncs, err := syncLatency(filepath.Join(folder, "sync"), 200)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d cores (%s), %s GB of memory, %s %s, %s. "+
		"Writing 4 KiB to the end of a file and fsync, %d times: median %s ms, 99th percentile %s ms.\n",
		runtime.NumCPU(), field("/proc/cpuinfo", `model name\s*:\s*(.*)`), memoryGB(), runtime.GOOS,
		field("/proc/sys/kernel/osrelease", `^([\d.]+)`), runtime.Version(), len(syncs),
		digits(milliseconds(percentile(syncs, 0.5))), digits(milliseconds(percentile(syncs, 0.99)))), nil
}

// syncLatency times a write and its fsync, n times, sorted.
func syncLatency(path string, n int) (took []time.Duration, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	block := make([]byte, 4096)
	for range n {
		begin := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took, nil
}

// loadAverage is that of the last minute.
func loadAverage() string { return field("/proc/loadavg", `^([\d.]+)`) }

func memoryGB() string {
	var kb float64
	if _, err := fmt.Sscan(field("/proc/meminfo", `MemTotal:\s*(\d+)`), &kb); err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.0f", kb/(1<<20))
}

// field is what a pattern's group finds in a file of the system.
func field(path, pattern string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	found := regexp.MustCompile("(?m)" + pattern).FindSubmatch(text)
	if found == nil {
		return "unknown"
	}
	return strings.TrimSpace(string(found[1]))
}
