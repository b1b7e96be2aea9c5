package front

import (
	"time"

	"github.com/kalpahost/kalpa/internal/guard"
)

// Limits are the options that can be changed while a front serves: see those of the same
// name in [Options].
type Limits struct {
	AllowedHosts   []string
	AllowedOrigins []string
	MaxBody        int64
	MaxStreams     int
	JSON           bool
}

func (o Options) limits() Limits {
	return Limits{o.AllowedHosts, o.AllowedOrigins, o.MaxBody, o.MaxStreams, o.JSON}
}

// Configure changes limits, for what comes from now on. On an error nothing has
// changed.
func (f *Front) Configure(l Limits) error {
	o := f.o
	o.AllowedHosts, o.AllowedOrigins, o.MaxBody, o.MaxStreams, o.JSON = l.AllowedHosts, l.AllowedOrigins, l.MaxBody, l.MaxStreams, l.JSON
	if err := o.Validate(); err != nil {
		return err
	}
	l = o.withDefaults().limits()
	f.limits.Store(&l)
	f.guarded.Store(&guard.Rules{Hosts: l.AllowedHosts, Origins: l.AllowedOrigins})
	return nil
}

// deadline is how long a POST may owe answers: the session's ceiling and
// DeadlineMargin. It is no option, so that the two can't drift apart.
func (f *Front) deadline() time.Duration {
	ceiling, hosted := f.o.Sessions.RunningCeiling(f.o.Server)
	if !hosted { // any more: the session refuses the request
		return DeadlineMargin
	}
	return ceiling + DeadlineMargin
}
