package oracle

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
)

// File is a program and what was seen of it.
type File struct {
	// Name is the file's, without folder and extension. Up to the first dash it is the area.
	Name string
	// Title is the first line of the comment: what the program shows.
	Title string
	// Comment is all of it.
	Comment string
	Program *Program
	// Workerd is what was seen on the real runtime.
	Workerd string
	// Kalpa is what is seen on kalpa where that is something else.
	Kalpa string

	program string
	path    string
}

// The parts of a file.
const (
	programPart = "program"
	workerdPart = "workerd"
	kalpaPart   = "kalpa"
)

// ReadFile reads a transcript.
func ReadFile(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a := txtar.Parse(b)
	f := &File{Name: strings.TrimSuffix(filepath.Base(path), ".txt"), Comment: string(a.Comment), path: path}
	f.Title, _, _ = strings.Cut(f.Comment, "\n")
	for _, part := range a.Files {
		switch part.Name {
		case programPart:
			f.program = string(part.Data)
		case workerdPart:
			f.Workerd = string(part.Data)
		case kalpaPart:
			f.Kalpa = string(part.Data)
		default:
			return nil, fmt.Errorf("%s: there is no part %q", path, part.Name)
		}
	}
	if f.Program, err = Parse(f.program); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// ReadDir reads all transcripts of a folder, sorted by name.
func ReadDir(dir string) ([]*File, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var files []*File
	for _, path := range paths {
		f, err := ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b *File) int { return cmp.Compare(a.Name, b.Name) })
	return files, nil
}

// Area is what the program is about: its name's first word.
func (f *File) Area() string {
	area, _, _ := strings.Cut(f.Name, "-")
	return area
}

// Write writes the file with what it says now.
func (f *File) Write() error {
	a := &txtar.Archive{Comment: []byte(f.Comment), Files: []txtar.File{{Name: programPart, Data: []byte(f.program)}}}
	if f.Workerd != "" {
		a.Files = append(a.Files, txtar.File{Name: workerdPart, Data: []byte(f.Workerd)})
	}
	if f.Kalpa != "" {
		a.Files = append(a.Files, txtar.File{Name: kalpaPart, Data: []byte(f.Kalpa)})
	}
	b := txtar.Format(a)
	if old, err := os.ReadFile(f.path); err == nil && bytes.Equal(old, b) {
		return nil
	}
	return os.WriteFile(f.path, b, 0o644) //nolint:gosec // a text for everybody
}
