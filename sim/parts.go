package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/internal/seams"
)

// parts are what can be broken by name: the world itself, each seam of the host's, and
// the teeth.
func parts() []*Broken {
	// What a world draws must come from its seed alone. Here latencies do not.
	all := []*Broken{{Name: "machine-clock", Profile: "swarm", Why: "two runs of one seed are not the same", World: func(w *World) {
		latency := w.net.Latency
		w.net.Latency = func() time.Duration { return latency() + time.Duration(wall().Nanosecond()%1000) }
	}}}
	for _, name := range seams.Names() {
		taken, err := seams.Parse(name)
		if err != nil {
			panic(err) // it is one of the names
		}
		all = append(all, &Broken{Name: name, World: func(w *World) { w.seams = taken }})
	}
	for _, b := range teeth {
		if !slices.ContainsFunc(all, func(o *Broken) bool { return o.Name == b.Name }) {
			all = append(all, b)
		}
	}
	return all
}

// FindBroken finds what can be broken on purpose, by its name.
func FindBroken(name string) (*Broken, error) {
	var names []string
	for _, b := range parts() {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return nil, fmt.Errorf("%q is nothing that can be broken; there are %s", name, strings.Join(names, ", "))
}
