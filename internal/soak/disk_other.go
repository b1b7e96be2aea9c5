//go:build !linux

package soak

import "errors"

// smallDisk is a file system that can be full.
type smallDisk struct{ dir string }

func newSmallDisk(string) (*smallDisk, error) {
	return nil, errors.New("file systems in memory are mounted on Linux alone")
}

func (d *smallDisk) fill(bool) error { return nil }
func (d *smallDisk) close() error    { return nil }

// marked can't be known here.
func marked(string) []string { return nil }
