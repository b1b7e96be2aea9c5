package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A record is the file by which the next start finds what a host and its
// supervisor left when both were killed. The supervisor keeps it: a head in JSON,
// then a line for each child that began (+) and that is gone without a rest (-).
// It is never synced: a crash of the machine takes the children as well.
type record struct {
	path  string
	head  recordHead
	f     *os.File
	lines int
	alive map[procID]struct{}
}

type recordHead struct {
	Format     int
	Instance   string
	Boot       string // of the machine
	PidSpace   string
	Host       procID
	Supervisor procID
	Cgroup     string `json:",omitempty"`
	Unbound    string `json:",omitempty"` // why the system keeps no limits of memory
}

// procID names one process for good, on one run of the machine.
type procID struct {
	Pid   int
	Start uint64
}

func (p proc) id() procID { return procID{p.pid, p.start} }

// runs says whether the process still does.
func (id procID) runs() bool {
	p, ok := readProc(id.Pid)
	return ok && p.start == id.Start && !p.zombie
}

const (
	recordFormat = 1
	recordPrefix = "stdio-"
	recordSuffix = ".run"
	// recordSlack is how many lines a record may have beyond one for each child
	// that lives, before it is written anew.
	recordSlack = 1000
)

func recordPath(dir, instance string) string {
	return filepath.Join(dir, recordPrefix+instance+recordSuffix)
}

func newRecord(dir string, head recordHead) (*record, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	head.Format = recordFormat
	r := &record{path: recordPath(dir, head.Instance), head: head, alive: map[procID]struct{}{}}
	return r, r.rewrite()
}

// rewrite makes the file anew, whole at every moment.
func (r *record) rewrite() error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(r.head); err != nil {
		return err
	}
	for id := range r.alive {
		fmt.Fprintf(&b, "+ %d %d\n", id.Pid, id.Start)
	}
	f, err := os.OpenFile(r.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(b.Bytes()); err != nil {
		f.Close()
		return err
	}
	if err := os.Rename(f.Name(), r.path); err != nil {
		f.Close()
		return err
	}
	if r.f != nil {
		r.f.Close()
	}
	r.f, r.lines = f, len(r.alive)
	return nil
}

func (r *record) began(id procID) error {
	r.alive[id] = struct{}{}
	return r.line('+', id)
}

func (r *record) gone(id procID) error {
	delete(r.alive, id)
	return r.line('-', id)
}

func (r *record) line(sign byte, id procID) error {
	r.lines++
	if r.lines > len(r.alive)+recordSlack {
		return r.rewrite()
	}
	_, err := fmt.Fprintf(r.f, "%c %d %d\n", sign, id.Pid, id.Start)
	return err
}

func (r *record) remove() {
	r.f.Close()
	os.Remove(r.path)
}

// readRecord reads a record that another host has left.
func readRecord(path string) (head recordHead, alive map[procID]struct{}, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return head, nil, err
	}
	in := bufio.NewScanner(bytes.NewReader(b))
	if !in.Scan() {
		return head, nil, fmt.Errorf("%s is empty", path)
	}
	if err := json.Unmarshal(in.Bytes(), &head); err != nil {
		return head, nil, fmt.Errorf("%s: %w", path, err)
	}
	if head.Format != recordFormat {
		return head, nil, fmt.Errorf("%s has format %d, this is for %d", path, head.Format, recordFormat)
	}
	if head.Instance == "" || path != recordPath(filepath.Dir(path), head.Instance) {
		return head, nil, fmt.Errorf("%s is the record of another host, %q", path, head.Instance)
	}
	alive = map[procID]struct{}{}
	for in.Scan() {
		var sign string
		var id procID
		if _, err := fmt.Fscan(strings.NewReader(in.Text()), &sign, &id.Pid, &id.Start); err != nil {
			continue // the last line, cut off
		}
		if sign == "+" {
			alive[id] = struct{}{}
		} else {
			delete(alive, id)
		}
	}
	return head, alive, in.Err()
}
