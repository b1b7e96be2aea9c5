package pebble

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAFolderThatGoesAwayIsNoticed(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"deleted": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-moved") },
		"replaced": func(dir string) error {
			if err := os.Rename(dir, dir+"-moved"); err != nil {
				return err
			}
			return os.CopyFS(dir, os.DirFS(dir+"-moved"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, markerName), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			lost := make(chan error, 1)
			w, err := watchFolder(dir, func(err error) { lost <- err })
			if err != nil {
				t.Fatal(err)
			}
			defer w.stop()
			select {
			case err := <-lost:
				t.Fatalf("nothing has happened, and it says %v", err)
			case <-time.After(watchEvery + watchEvery/2):
			}
			if err := harm(dir); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-lost:
				if !errors.Is(err, errFolderGone) {
					t.Fatal(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("not noticed")
			}
		})
	}
}
