package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// line is a talker's connection.
type line struct {
	talker
	fd    int
	asked time.Time // when what it is doing was begun
	amid  bool      // it has been begun, and is not done
	in    []byte
	has   int // bytes of in that are of an answer
}

// driver is a load that is being driven. One thread serves all connections, by epoll:
// a goroutine for each would cost as much as what is measured, on the same cores.
type driver struct {
	*load
	host, path string
	poll       int
	lines      []*line
	out        []byte
	begin, end time.Time
	busy       int
	sample
}

// run drives the load at an endpoint.
func (l *load) run(endpoint string) (s sample, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	u, err := url.Parse(endpoint)
	if err != nil {
		return s, err
	}
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return s, err
	}
	d := &driver{load: l, host: u.Host, path: u.RequestURI(), poll: poll}
	defer d.close()
	for i, t := range l.talkers {
		d.lines = append(d.lines, &line{talker: t, fd: -1, in: make([]byte, 4<<10)})
		if err := d.connect(i); err != nil {
			return s, err
		}
	}
	d.took = make([]time.Duration, 0, 1<<16)
	d.begin = time.Now().Add(l.warmup)
	d.end = d.begin.Add(l.d)
	if err := d.drive(); err != nil {
		return s, err
	}
	over := l.d
	if l.once {
		over = time.Since(d.begin)
	}
	d.rate = float64(len(d.took)) / over.Seconds()
	slices.Sort(d.took)
	return d.sample, nil
}

func (d *driver) drive() error {
	events := make([]syscall.EpollEvent, 256)
	started := 0
	for d.busy = len(d.lines); d.busy > 0; {
		for ; started < len(d.lines); started++ {
			due := d.begin.Add(d.spread * time.Duration(started) / time.Duration(len(d.lines)))
			if d.spread > 0 && time.Now().Before(due) {
				break
			}
			w := d.lines[started]
			if d.spread > 0 {
				w.asked, w.amid = due, true
			}
			if err := d.send(w); err != nil {
				return err
			}
		}
		wait := patience
		if started < len(d.lines) {
			wait = time.Millisecond
		}
		n, err := syscall.EpollWait(d.poll, events, int(wait.Milliseconds()))
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if n == 0 && wait == patience {
			return fmt.Errorf("%d connections have heard nothing for %v", d.busy, patience)
		}
		for _, e := range events[:max(n, 0)] {
			if err := d.hear(int(e.Fd)); err != nil {
				return err
			}
		}
	}
	return nil
}

// hear takes what has come over a connection, and lets its talker go on.
func (d *driver) hear(i int) error {
	w := d.lines[i]
	r, whole, err := w.read()
	if err == nil && !whole {
		return nil
	}
	answered, done := time.Now(), false
	if err == nil {
		done, err = w.answer(r)
		whole = !strings.EqualFold(string(r.field(closingField)), "close")
	}
	if err != nil {
		d.fault(err)
		done = true
	} else if done && (d.once || !w.asked.Before(d.begin) && !answered.After(d.end)) {
		d.took = append(d.took, answered.Sub(w.asked))
	}
	w.amid = !done
	if done && !d.once && answered.After(d.end) || !w.next() {
		d.busy--
		return nil
	}
	if !whole { // the connection is of no more use
		if err := d.connect(i); err != nil {
			return err
		}
	}
	return d.send(w)
}

// send sends a talker's next request.
func (d *driver) send(w *line) error {
	d.out = w.request(d.out[:0], d.host, d.path)
	if !w.amid {
		w.asked, w.amid = time.Now(), true
	}
	n, err := syscall.Write(w.fd, d.out)
	if err == nil && n != len(d.out) {
		err = fmt.Errorf("%d of %d bytes were sent", n, len(d.out))
	}
	return err
}

// connect makes a talker's connection, or a new one.
func (d *driver) connect(i int) (err error) {
	w := d.lines[i]
	if w.fd >= 0 {
		_ = syscall.Close(w.fd)
	}
	w.has = 0
	if w.fd, err = dial(d.host); err != nil {
		return err
	}
	return syscall.EpollCtl(d.poll, syscall.EPOLL_CTL_ADD, w.fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}) //nolint:gosec // a small number
}

func (d *driver) close() {
	for _, w := range d.lines {
		if w.fd >= 0 {
			_ = syscall.Close(w.fd)
		}
	}
	_ = syscall.Close(d.poll)
}

// read reads what has come.
func (w *line) read() (r response, whole bool, err error) {
	if w.has == len(w.in) {
		if len(w.in) > maxBody {
			return r, false, errors.New("an answer is larger than it may be")
		}
		w.in = append(w.in, make([]byte, len(w.in))...)
	}
	n, err := syscall.Read(w.fd, w.in[w.has:])
	if err == nil && n == 0 {
		err = errors.New("a connection was closed")
	}
	if err != nil {
		return r, false, err
	}
	w.has += n
	r, whole, err = parse(w.in[:w.has])
	if whole {
		w.has = 0
	}
	return r, whole, err
}

// dial makes a connection that blocks: what is to be read is there when epoll says so.
func dial(host string) (fd int, err error) {
	address, err := netip.ParseAddrPort(host)
	if err != nil || !address.Addr().Is4() {
		return -1, errors.Join(fmt.Errorf("the load goes to an IPv4 address, and %s is none", host), err)
	}
	if fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}))
	if err != nil {
		_ = syscall.Close(fd)
		return -1, &net.OpError{Op: "dial", Net: "tcp", Err: err}
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
