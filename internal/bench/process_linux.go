package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// process is a server under measurement, with all that it has started.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	log   string
}

// launch starts a command in a process group of its own, with its output in a file
// (stdout too unless the command has one). The group goes with stop, and its leader
// also when this program dies.
func launch(cmd *exec.Cmd, log string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd.Stderr = out
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{}), log: log}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // it is killed: what matters is that it ended
	}()
	return p, nil
}

// pause and resume stop and continue the whole group.
func (p *process) pause() error  { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGSTOP) }
func (p *process) resume() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGCONT) }

// stop kills the group as kill -9 does. Later calls do nothing.
func (p *process) stop() {
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL); err == nil {
		<-p.ended
	}
}

// terminate asks for an orderly end and waits for it.
func (p *process) terminate(limit time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(limit):
		p.stop()
		return fmt.Errorf("it did not end within %v", limit)
	}
}

// lastWords is the last line that it has written.
func (p *process) lastWords() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}

// resident is the memory of the group, in bytes.
func (p *process) resident() (int64, error) {
	// Resident pages are the 22nd field.
	pages, err := p.sum(21)
	return pages * int64(os.Getpagesize()), err
}

// burnt is the processor time of the group so far.
func (p *process) burnt() (time.Duration, error) {
	// In user mode and in the system, in hundredths of a second.
	ticks, err := p.sum(11, 12)
	return time.Duration(ticks) * 10 * time.Millisecond, err
}

// sum adds up fields of the group's lines in /proc, counted from 0 after the name.
func (p *process) sum(which ...int) (total int64, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	found := false
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// After the name, which may hold anything but ends with the last bracket:
		// state, parent, group, ...
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 22 || string(fields[2]) != strconv.Itoa(p.cmd.Process.Pid) {
			continue
		}
		found = true
		for _, i := range which {
			n, err := strconv.ParseInt(string(fields[i]), 10, 64)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	if !found {
		return 0, errors.New("it is not running")
	}
	return total, nil
}

// allocated is what the files of a folder take of the disk.
func allocated(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil // a file of the store that has just been replaced
		}
		if err == nil {
			total += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	return total, err
}

// newSession makes a command the leader of a session of its own.
func newSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
