//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

var errLinux = errors.New("the benchmarks read processes and memory from /proc, and need Linux")

type process struct{ ended chan struct{} }

func launch(*exec.Cmd, string) (*process, error) { return nil, errLinux }
func (p *process) pause() error                  { return errLinux }
func (p *process) resume() error                 { return errLinux }
func (p *process) stop()                         {}
func (p *process) terminate(time.Duration) error { return errLinux }
func (p *process) lastWords() string             { return "" }
func (p *process) resident() (int64, error)      { return 0, errLinux }
func allocated(string) (int64, error)            { return 0, errLinux }

func newSession() *syscall.SysProcAttr { return nil }

func (p *process) burnt() (time.Duration, error) { return 0, errLinux }
func burnt() (time.Duration, error)              { return 0, errLinux }
func (l *load) run(string) (s sample, err error) { return s, errLinux }
