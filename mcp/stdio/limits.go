package stdio

import (
	"errors"
	"fmt"
	"time"

	"github.com/kalpahost/kalpa/mcp"
)

// Limits are what one server, with all that it has started, may take. 0 is no limit.
// They are looked at about once a second, on Linux; what is beyond one is killed, and
// reported with an [ExitError] that wraps mcp.ErrMemoryLimit or mcp.ErrCPULimit.
type Limits struct {
	Memory    int64         // bytes that its processes have in physical memory
	CPU       time.Duration // processor time, in all
	Processes int
	// Files is what each of its processes may have open: the system refuses more.
	Files int
}

func (l Limits) validate() error {
	if l.Memory < 0 || l.CPU < 0 || l.Processes < 0 || l.Files < 0 {
		return errors.New("stdio: a limit is negative")
	}
	return nil
}

// usage is what a server takes.
type usage struct {
	memory    int64
	cpu       time.Duration
	processes int
}

// over says which limit is exceeded, in words that end "the server ..."; nil: none.
func (l Limits) over(u usage) *excess {
	switch {
	case l.Memory > 0 && u.memory > l.Memory:
		return &excess{fmt.Sprintf("took %d MiB of memory, and the limit is %d MiB, so it was ended", u.memory>>20, l.Memory>>20), mcp.ErrMemoryLimit}
	case l.CPU > 0 && u.cpu > l.CPU:
		return &excess{fmt.Sprintf("took %v of processor time, and the limit is %v, so it was ended", u.cpu.Round(time.Second), l.CPU), mcp.ErrCPULimit}
	case l.Processes > 0 && u.processes > l.Processes:
		return &excess{fmt.Sprintf("ran %d processes, and the limit is %d, so it was ended", u.processes, l.Processes), nil}
	}
	return nil
}

// excess is why a server has to be ended at once.
type excess struct {
	why string
	err error // what ExitError wraps; may be nil
}

// chargeStep is the change in memory that is worth telling the isolate, in bytes.
const chargeStep = 1 << 20

// measured takes what the server takes now: it is charged to the isolate's heap, and
// ends the server when it is too much. It is called by one goroutine.
func (r *Runtime) measured(u usage) {
	r.mu.Lock()
	r.usage = u
	over := r.closed || r.ended != nil
	r.mu.Unlock()
	if over {
		return
	}
	if e := r.config.Limits.over(u); e != nil {
		select {
		case r.exceeded <- e:
		default:
		}
		return
	}
	if change := u.memory - r.charged; change < chargeStep && change > -chargeStep {
		return
	}
	if r.discharge != nil {
		r.discharge()
		r.discharge, r.charged = nil, 0
	}
	release, err := r.session.Charge(u.memory)
	if err != nil {
		// The isolate is reset, and this session with it; or it has gone on already.
		r.log.Debug("the server's memory could not be charged", "bytes", u.memory, "error", err)
		return
	}
	r.discharge, r.charged = release, u.memory
}
