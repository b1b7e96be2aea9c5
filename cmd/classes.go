package cmd

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
)

// Class is a class of objects as a program registers it: an actor.Class.
type Class interface {
	Name() string
	Register(h *actor.Host)
}

var classes struct {
	sync.Mutex
	all []Class
}

// Register makes classes of objects a part of every host that this program serves. It
// panics when a name is empty, or taken by another or by the sessions.
func Register(all ...Class) {
	classes.Lock()
	defer classes.Unlock()
	for _, c := range all {
		taken := c.Name() == "" || c.Name() == session.Class
		for _, other := range classes.all {
			taken = taken || other.Name() == c.Name()
		}
		if taken {
			panic(fmt.Sprintf("kalpa: class %q can't be registered: the name is empty, or taken", c.Name()))
		}
		classes.all = append(classes.all, c)
	}
}

// registered are the classes of this program.
func registered() []Class {
	classes.Lock()
	defer classes.Unlock()
	return slices.Clip(classes.all)
}
