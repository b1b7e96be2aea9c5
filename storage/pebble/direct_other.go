//go:build !linux || (!amd64 && !arm64)

package pebble

import "github.com/cockroachdb/pebble/v2/vfs"

func direct(f vfs.File) vfs.File { return f }

func overwrites(string) bool { return false }

func aligned(b []byte) []byte { return b }
