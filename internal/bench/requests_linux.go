package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// wire is a connection of a load.
type wire struct {
	*asker
	fd  int
	in  []byte
	has int // bytes of in that are of an answer
}

// run drives the load at an endpoint. One thread serves all connections, by epoll: a
// goroutine for each would cost as much as what is measured, on the same cores.
func (r *requests) run(endpoint string) (s sample, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	u, err := url.Parse(endpoint)
	if err != nil {
		return s, err
	}
	poll, err := syscall.EpollCreate1(0)
	if err != nil {
		return s, err
	}
	defer func() { _ = syscall.Close(poll) }()
	wires := make([]*wire, r.connections)
	defer func() {
		for _, w := range wires {
			if w != nil {
				_ = syscall.Close(w.fd)
			}
		}
	}()
	for i := range wires {
		fd, err := dial(u.Host)
		if err != nil {
			return s, err
		}
		wires[i] = &wire{asker: r.asker(i), fd: fd, in: make([]byte, 4<<10)}
		if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}); err != nil { //nolint:gosec // a small number
			return s, err
		}
	}
	var out []byte
	send := func(w *wire) error {
		out = w.request(out[:0], u.Host, u.Path)
		w.asked = time.Now()
		n, err := syscall.Write(w.fd, out)
		if err == nil && n != len(out) {
			err = fmt.Errorf("%d of %d bytes were sent", n, len(out))
		}
		return err
	}
	begin := time.Now().Add(r.warmup)
	end := begin.Add(r.d)
	s.took = make([]time.Duration, 0, 1<<20)
	busy := 0
	for _, w := range wires {
		if w.object >= r.objects {
			continue
		}
		if err := send(w); err != nil {
			return s, err
		}
		busy++
	}
	events := make([]syscall.EpollEvent, len(wires))
	for busy > 0 {
		n, err := syscall.EpollWait(poll, events, int(patience.Milliseconds()))
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return s, err
		}
		if n == 0 {
			return s, fmt.Errorf("%d connections have heard nothing for %v", busy, patience)
		}
		for _, e := range events[:max(n, 0)] {
			w := wires[e.Fd]
			status, body, whole, err := w.read()
			if err != nil {
				return s, err
			}
			if !whole {
				continue
			}
			answered := time.Now()
			if err := w.check(status, body); err != nil {
				if s.bad++; s.first == nil {
					s.first = err
				}
			} else if r.once || !w.asked.Before(begin) && !answered.After(end) {
				s.took = append(s.took, answered.Sub(w.asked))
			}
			if !w.next() || !r.once && answered.After(end) {
				busy--
				continue
			}
			if err := send(w); err != nil {
				return s, err
			}
		}
	}
	s.rate = float64(len(s.took)) / r.d.Seconds()
	if r.once {
		s.rate = float64(len(s.took)) / time.Since(begin).Seconds()
	}
	slices.Sort(s.took)
	return s, nil
}

// read reads what has come.
func (w *wire) read() (status int, body []byte, whole bool, err error) {
	if w.has == len(w.in) {
		return 0, nil, false, errors.New("an answer is larger than it may be")
	}
	n, err := syscall.Read(w.fd, w.in[w.has:])
	if err == nil && n == 0 {
		err = errors.New("a connection was closed")
	}
	if err != nil {
		return 0, nil, false, err
	}
	w.has += n
	status, body, whole, err = parse(w.in[:w.has])
	if whole {
		w.has = 0
	}
	return status, body, whole, err
}

// dial makes a connection that blocks: what is to be read is there when epoll says so.
func dial(host string) (fd int, err error) {
	address, err := netip.ParseAddrPort(host)
	if err != nil || !address.Addr().Is4() {
		return 0, errors.Join(fmt.Errorf("the load goes to an IPv4 address, and %s is none", host), err)
	}
	if fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
		return 0, err
	}
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}))
	if err != nil {
		_ = syscall.Close(fd)
		return 0, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	return fd, nil
}

// burnt is the processor time of this process so far, in all of its threads.
func burnt() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
