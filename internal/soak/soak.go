package soak

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Soak is storm after storm, each with clients and a store of its own.
type Soak struct {
	// Program is the kalpa that is run. It must have the command `soak server`.
	Program string
	Env     []string // of the hosts, NAME=VALUE
	Seed    uint64
	// Storms is how large each is: Large when nothing is said.
	Storms Size
	// For is how long: a storm that has begun goes on to its end.
	For time.Duration
	// Told, if not nil, is told how far it is.
	Told func(Report)
}

// Size is how large storms are.
type Size struct{ Sessions, Calls, Kills, Pauses int }

// Sizes: a minute has two large ones.
var (
	Small = Size{5, 20, 1, 0}
	Large = Size{20, 200, 3, 2}
)

// Report is what a soak came to.
type Report struct {
	Seed   uint64 `json:"seed"`
	Storms int    `json:"storms"`

	Resets int `json:"resets"`
	Kills  int `json:"kills"`
	Pauses int `json:"pauses"`
	Fulls  int `json:"full_disks"`
	Ended  int `json:"ended_by_full_disks"`

	Requests int            `json:"requests"`
	Answered int            `json:"answered"` // with a result
	Lost     map[string]int `json:"lost"`     // by reason
	Refused  int            `json:"refused"`
	Unsure   int            `json:"unsure"` // the connection broke, and nothing is known

	OnGet   int `json:"answered_on_a_get"`
	Again   int `json:"told_again_after_a_kill"`
	Resorts int `json:"last_resorts"`

	Slowest  float64  `json:"slowest_seconds"`
	Real     float64  `json:"real_seconds"`
	Skipped  []string `json:"skipped,omitempty"`
	Failures []string `json:"failures,omitempty"`
}

func (r *Report) add(o *Outcome) {
	r.Storms++
	r.Resets += o.Resets
	r.Kills += len(o.Kills) - o.Ended - o.Fulls
	r.Pauses += o.Pauses
	r.Fulls += o.Fulls
	r.Ended += o.Ended
	r.Answered += o.Results
	for reason, n := range o.Lost {
		r.Lost[reason] += n
		r.Requests += n
	}
	r.Refused += o.Refused
	r.Unsure += o.Unsure
	r.Requests += o.Results + o.Refused + o.Unsure
	r.OnGet += o.OnGet
	r.Again += o.Again
	r.Resorts += o.Resorts
	r.Slowest = max(r.Slowest, o.Slowest.Round(time.Millisecond).Seconds())
	r.Failures = append(r.Failures, o.Faults...)
}

// Run runs storms until the time has passed, or one has found something. An error says
// that the soak itself did not work.
func (s *Soak) Run(ctx context.Context) (*Report, error) {
	r := &Report{Seed: s.Seed, Lost: map[string]int{}}
	dir, err := os.MkdirTemp("", "kalpa-soak-")
	if err != nil {
		return nil, err
	}
	small, missing := newSmallDisk(filepath.Join(dir, "small"))
	if missing != nil {
		r.Skipped = append(r.Skipped, "full disks: "+missing.Error())
	}
	err = s.storms(ctx, dir, small, r)
	return r, errors.Join(err, small.close(), os.RemoveAll(dir))
}

func (s *Soak) storms(ctx context.Context, dir string, small *smallDisk, r *Report) error {
	began := time.Now()
	for n := 0; n == 0 || time.Since(began) < s.For && len(r.Failures) == 0; n++ {
		o, err := s.storm(ctx, n, dir, small)
		if err != nil {
			return err
		}
		r.add(o)
		r.Real = time.Since(began).Round(time.Millisecond).Seconds()
		if s.Told != nil {
			s.Told(*r)
		}
	}
	return nil
}

// storm is one storm, with a host of its own.
func (s *Soak) storm(ctx context.Context, n int, dir string, small *smallDisk) (*Outcome, error) {
	home := filepath.Join(dir, fmt.Sprint(n))
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	size := cmp.Or(s.Storms, Large)
	storm := &Storm{
		Seed: s.Seed + uint64(n)<<32, Sessions: size.Sessions, Calls: size.Calls, Kills: size.Kills, Pauses: size.Pauses, //nolint:gosec // n is no less than 0
		Isolates: 4, Name: fmt.Sprintf("%d.", n),
	}
	h := &Host{Program: s.Program, Env: s.Env, Data: filepath.Join(home, "data")}
	// Every other storm has a disk that is small, and gets full.
	if small != nil && n%2 == 0 {
		storm.Fulls, storm.Fill = 1, small.fill
		h.Data = filepath.Join(small.dir, fmt.Sprint(n))
	}
	mark := "KALPA_SOAK_MARK=" + rand.Text()
	config, err := s.config(home, mark)
	if err != nil {
		return nil, err
	}
	h.Args = []string{"--config", config, "--idle-timeout", idle.String(), "--log-level", "warn", "--isolates", fmt.Sprint(storm.Isolates)}
	if err := h.Start(ctx); err != nil {
		return nil, err
	}
	defer h.Kill()
	o, err := storm.Run(ctx, h)
	if ctx.Err() != nil {
		for _, c := range o.Clients {
			c.End()
		}
		return nil, ctx.Err()
	}
	if err != nil { // the host has not lived up to what it is for
		o.Fault("%v; its stderr: %s", err, h.Stderr())
	} else {
		s.rest(ctx, h, o, mark, n%2 == 1)
	}
	h.Kill()
	if err := storm.Judge(o, h.Data); err != nil {
		o.Fault("the store that is left: %v", err)
	}
	return o, os.RemoveAll(h.Data)
}

// idle is how long a server stays up without use.
const idle = 2 * time.Second

// rest looks at a host that nobody calls any more, and at what is left of it.
func (s *Soak) rest(ctx context.Context, h *Host, o *Outcome, mark string, inOrder bool) {
	resident := int64(-1)
	for deadline := time.Now().Add(idle + time.Minute); resident != 0 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		all, err := h.Admin().Isolates(ctx)
		if err != nil {
			o.Fault("the host does not tell of its isolates: %v", err)
			return
		}
		resident = 0
		for _, i := range all.Isolates {
			resident += i.Resident
		}
	}
	if resident != 0 {
		o.Fault("%d runtimes are resident a minute after the idle time-out, and nobody calls (I7, I9)", resident)
	}
	if inOrder {
		if code, err := h.Terminate(time.Minute); err != nil || code != 0 {
			o.Fault("SIGTERM: exit code %d, %v", code, err)
		}
	} else {
		h.Kill()
	}
	left := marked(mark)
	for deadline := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		left = marked(mark)
	}
	if len(left) > 0 {
		o.Fault("processes are left after the host has ended: %q", left)
	}
}

// config writes a host's configuration: the demo, and a server that is a process.
func (s *Soak) config(dir, mark string) (file string, err error) {
	name, value := mark[:len("KALPA_SOAK_MARK")], mark[len("KALPA_SOAK_MARK="):]
	text, err := json.Marshal(map[string]any{"servers": map[string]any{ // YAML, too
		"demo": map[string]any{"plugin": "demo"},
		Child:  map[string]any{"command": s.Program, "args": []string{"soak", "server"}, "env": map[string]string{name: value}},
	}})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "kalpa.yaml")
	return file, os.WriteFile(file, text, 0o600)
}
