package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/mcp/stdio"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// What doctor finds wanting.
const (
	fewFiles    = 4096    // descriptors: each client has one, each child three
	littleDisk  = 1 << 30 // bytes free
	slowSync    = 50 * time.Millisecond
	clockBefore = 365 * 24 * time.Hour
)

// symptom is one thing that doctor has looked at.
type symptom struct {
	Check  string `json:"check"`
	Result string `json:"result"` // ok, warning or problem
	Text   string `json:"text"`
	Do     string `json:"do,omitempty"`
}

// diagnosis is all of them.
type diagnosis struct {
	Symptoms []symptom `json:"checks"`
}

func (d *diagnosis) add(check, result, text, do string) {
	d.Symptoms = append(d.Symptoms, symptom{check, result, text, do})
}

func newDoctor() *cobra.Command {
	var (
		f             hostFlags
		data, address string
		out           output
	)
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look at the machine and the configuration: ports, limits, disk, clock, versions", Args: noArgs,
		Long: `doctor looks at what a host needs of its machine and says what is wanting. It changes
nothing, but for a small file in the data folder (or where that would be) that it writes
and removes, to see how long the disk takes. The address and the data folder are those
that serve would have of the configuration file and KALPA_ variables, unless flags say
otherwise.

Exit codes: 0 nothing is wrong, or there are warnings; 1 there is a problem with which
no host would work; 2 the command line is wrong.`,
		Example: "  kalpa doctor --config kalpa.yaml",
	}
	cmd.Flags().StringVar(&f.file, "config", "", "the configuration `FILE` of the host (default $"+configVariable+")")
	cmd.Flags().StringVar(&data, "data", "", "the data `FOLDER` of the host (default the configuration's, or "+config.DefaultData+")")
	cmd.Flags().StringVar(&address, "listen", "", "the `HOST:PORT` of the host (default the configuration's, or "+config.DefaultListen+")")
	out.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := &diagnosis{}
		c := d.configuration(&f)
		d.servers(c)
		d.examine(cmp.Or(data, c.Data), cmp.Or(address, c.Listen), c.Admin)
		if err := out.print(cmd.OutOrStdout(), d, d.text); err != nil {
			return err
		}
		if slices.ContainsFunc(d.Symptoms, func(s symptom) bool { return s.Result == "problem" }) {
			return exitError(ExitFailure)
		}
		return nil
	}
	return cmd
}

func (d *diagnosis) text(w io.Writer) {
	rows := [][]string{}
	for _, s := range d.Symptoms {
		rows = append(rows, []string{s.Result, s.Check, s.Text})
		if s.Do != "" {
			rows = append(rows, []string{"", "", "-> " + s.Do})
		}
	}
	table(w, rows...)
}

// configuration looks at the configuration, and returns it; what is wrong with it leaves
// the defaults.
func (d *diagnosis) configuration(f *hostFlags) *config.Config {
	c, _, err := f.load(nil)
	if err == nil {
		err = named(c)
	}
	problems, ok := errors.AsType[config.Problems](err)
	switch {
	case ok:
		for _, p := range problems {
			d.add("config", "problem", p.String(), "docs/configuration.md has the keys; kalpa config check looks at the configuration alone")
		}
		if c != nil { // what it says is right, and a file that it names is not
			return c
		}
	case err != nil:
		d.add("config", "problem", err.Error(), "name a file that can be read with --config")
	default:
		d.add("config", "ok", fmt.Sprintf("nothing is wrong with it; %d server(s)", len(c.Servers)), "")
		return c
	}
	return &config.Config{Data: cmp.Or(os.Getenv(dataVariable), config.DefaultData), Listen: cmp.Or(os.Getenv(config.Prefix+"LISTEN"), config.DefaultListen)}
}

// servers looks for the commands that a host would start. One that is not there keeps no
// host from working for the others.
func (d *diagnosis) servers(c *config.Config) {
	for _, s := range c.Servers {
		if s.Command == "" {
			continue
		}
		if err := stdio.New(started(s)).Check(); err != nil {
			reason, do := err.Error(), ""
			if e, ok := errors.AsType[*stdio.StartError](err); ok {
				reason, do = e.Reason(), e.Hint
			}
			d.add("server", "warning", s.Name+": "+reason, do)
		}
	}
}

func (d *diagnosis) examine(dir, address, admin string) {
	d.add("version", "ok", "kalpa "+version(), "")
	d.add("machine", "ok", fmt.Sprintf("%d cores for Go, %d in all", runtime.GOMAXPROCS(0), runtime.NumCPU()), "")
	d.clock(dir)
	d.files()
	holder := d.data(dir)
	d.port("port", address, "--listen", holder)
	if admin != "" && !strings.HasPrefix(admin, config.UnixSocket) {
		d.port("admin", admin, "--admin", holder)
	}
	d.disk(dir)
	d.memory(dir)
}

// data looks at the data folder, and tells whether a host has it open.
func (d *diagnosis) data(dir string) (held bool) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.add("data", "ok", dir+" is not there yet: kalpa serve makes it", "")
	case err != nil:
		d.add("data", "problem", err.Error(), "name a folder that can be read with --data")
	case !info.IsDir():
		d.add("data", "problem", dir+" is a file", "name a folder with --data")
	case !pebble.IsStore(dir):
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			d.add("data", "problem", fmt.Sprintf("%s is no kalpa store, and holds %q", dir, entries[0].Name()), "name an empty folder with --data, or one that is not there")
			return false
		}
		d.add("data", "ok", dir+" is empty: kalpa serve makes a store of it", "")
	default:
		if pebble.InUse(dir) {
			h := pebble.ReadHolder(dir)
			text := fmt.Sprintf("%s is a store that a host has open, pid %d", dir, h.PID)
			if h.Contact == "" {
				d.add("data", "warning", text+", without an admin listener", "start it with --admin, for kalpa sessions, kalpa backup and the others to reach it")
			} else {
				d.add("data", "ok", text+", admin "+h.Contact, "")
			}
			return true
		}
		d.add("data", "ok", dir+" is a store that no host has open", "")
	}
	return false
}

func (d *diagnosis) port(check, address, flag string, held bool) {
	l, err := net.Listen("tcp", address) //nolint:noctx // at once
	switch {
	case err == nil:
		_ = l.Close()
		d.add(check, "ok", address+" is free", "")
	case held:
		d.add(check, "ok", address+" is in use, by the host perhaps", "")
	default:
		d.add(check, "problem", err.Error(), "choose another with kalpa serve "+flag+", or end what has it")
	}
}

// disk measures how long a small write takes to be durable, where the store is or
// would be.
func (d *diagnosis) disk(dir string) {
	where := dir
	for {
		if info, err := os.Stat(where); err == nil && info.IsDir() {
			break
		}
		parent := filepath.Dir(where)
		if parent == where {
			return
		}
		where = parent
	}
	d.space(where)
	f, err := os.CreateTemp(where, ".kalpa-doctor-")
	if err != nil {
		d.add("disk", "problem", err.Error(), "the user who runs the host must be able to write there")
		return
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer f.Close() //nolint:errcheck // it goes
	var took []time.Duration
	for range 9 {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			d.add("disk", "problem", err.Error(), "")
			return
		}
		if err := f.Sync(); err != nil {
			d.add("disk", "problem", err.Error(), "")
			return
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	result, do := "ok", ""
	if median > slowSync {
		result, do = "warning", "each commit takes as long: use a faster disk, or --durability relaxed where a power cut may take the last moments"
	}
	d.add("sync", result, fmt.Sprintf("a write of 4 KiB is durable after %v (the median of %d)", median.Round(10*time.Microsecond), len(took)), do)
}

// clock looks whether the time can be right: not before this program, nor before what
// is in the store.
func (d *diagnosis) clock(dir string) {
	now := time.Now()
	if exe, err := os.Executable(); err == nil {
		if info, err := os.Stat(exe); err == nil && now.Before(info.ModTime().Add(-time.Hour)) {
			d.add("clock", "problem", "it says "+now.Format(time.RFC3339)+", and this program was written "+info.ModTime().Format(time.RFC3339), "set the clock: alarms, retention and lifetimes go by it")
			return
		}
	}
	entries, _ := os.ReadDir(dir) // what can't be read is told of elsewhere
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Before(info.ModTime().Add(-time.Minute)) {
			d.add("clock", "warning", "it says "+now.Format(time.RFC3339)+", and the store was written to at "+info.ModTime().Format(time.RFC3339), "the clock was put back: what was to happen in between happens late")
			return
		}
	}
	if text, synced, known := clockState(); known && !synced {
		d.add("clock", "warning", text, "a time service keeps it right: several hosts and their clients compare times")
		return
	}
	zone, _ := now.Zone()
	d.add("clock", "ok", now.Format(time.RFC3339)+" ("+zone+"); cron schedules without a zone are in UTC", "")
}

// memory says how a host keeps the limit of a server's memory.
func (d *diagnosis) memory(dir string) {
	e := stdio.Enforced(runFolder(dir))
	who := "a host that is started from here"
	if e.Running {
		who = "the host"
	}
	if e.Bound {
		d.add("memory", "ok", who+" has the system keep max_memory of each server, by control groups", "")
		return
	}
	d.add("memory", "ok", who+" looks at its servers' memory about once a second: "+e.Why,
		"to have the system keep max_memory, start the host in a control group of its own that it may divide: Delegate=memory and ProtectControlGroups=no in a unit, or systemd-run --user --scope -p Delegate=memory kalpa serve")
}

func (d *diagnosis) files() {
	soft, hard, known := openFiles()
	switch {
	case !known:
	case soft < fewFiles:
		do := "raise it where the host is started: ulimit -n " + strconv.FormatUint(min(hard, 1<<16), 10)
		if hard < fewFiles {
			do = "raise the hard limit too (limits.conf, LimitNOFILE of systemd)"
		}
		d.add("limits", "warning", fmt.Sprintf("%d open files, at most %d: each client has one, each server's process some", soft, hard), do)
	default:
		d.add("limits", "ok", fmt.Sprintf("%d open files, at most %d", soft, hard), "")
	}
}
