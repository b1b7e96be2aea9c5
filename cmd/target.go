package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// dataVariable is the environment's name of the data folder, for hosts and commands.
const dataVariable = "KALPA_DATA"

// targetRule says which host or store a command is about, for its help.
const targetRule = `It asks the host that --admin or $KALPA_ADMIN names. Without one it is about the data
folder that --data or $KALPA_DATA names (default ` + config.DefaultData + `): the host that has it
open is asked, which it finds by itself; if none has, the store is opened for the
moment.`

// hostRule is the same of a command that is about a running host alone.
const hostRule = `It asks the host that --admin or $KALPA_ADMIN names. Without one it asks the host that
has the data folder open which --data or $KALPA_DATA names (default ` + config.DefaultData + `). There
has to be one that runs.`

// reach is what a command needs of what it is about.
type reach uint8

const (
	looking  reach = iota // a store is opened for reading, and stays as it is
	changing              // a store is opened for writing
	running               // only a running host has it
)

// targetFlags say which host or store a command is about.
type whichFlags struct {
	admin adminFlags
	data  string
	out   output
}

func (f *whichFlags) add(set *pflag.FlagSet) {
	f.admin.add(set)
	set.StringVar(&f.data, "data", "", "the data `FOLDER` (default $"+dataVariable+" or "+config.DefaultData+")")
	f.out.add(set)
}

// folder is the data folder, and whether it was named.
func (f *whichFlags) folder() (dir string, named bool) {
	if f.data != "" {
		return f.data, true
	}
	if dir := os.Getenv(dataVariable); dir != "" {
		return dir, true
	}
	return config.DefaultData, false
}

// target is a running host, or a store that none has open: both answer to a client.
type target struct {
	*admin.Client
	offline bool
	close   func() error
}

func (f *whichFlags) open(r reach) (*target, error) {
	if f.admin.address != "" || f.data == "" && os.Getenv(adminVariable) != "" {
		c, err := f.admin.client()
		return &target{Client: c, close: func() error { return nil }}, err
	}
	dir, named := f.folder()
	if r == running {
		return f.holder(dir, named)
	}
	t, err := openStore(dir, r == looking)
	switch {
	case errors.Is(err, storage.ErrLocked):
		return f.holder(dir, named)
	case errors.Is(err, storage.ErrNoStore) && !named:
		return nil, &hinted{fmt.Errorf("there is no kalpa store in %s", dir), "name a data folder with --data, or a running host with --admin"}
	}
	return t, err
}

// holder is the host that has a store open.
func (f *whichFlags) holder(dir string, named bool) (*target, error) {
	if !pebble.IsStore(dir) && !named {
		return nil, &hinted{fmt.Errorf("no host is named, and there is no kalpa store in %s", dir), "name a running host with --admin, or its data folder with --data"}
	}
	h := pebble.ReadHolder(dir)
	switch {
	case !pebble.InUse(dir):
		return nil, &hinted{fmt.Errorf("no host has the data folder %s open, and this is about a running one", dir), "start it with kalpa serve --admin " + admin.DefaultAddress + ", or name another with --admin"}
	case h.Contact == "":
		return nil, &hinted{fmt.Errorf("the data folder %s is in use by a host (pid %d) that has no admin listener", dir, h.PID), "start it with kalpa serve --admin " + admin.DefaultAddress + "; or end it: then the store itself can be asked"}
	}
	f.admin.address = h.Contact
	c, err := f.admin.client()
	return &target{Client: c, close: func() error { return nil }}, err
}

// openStore makes a host of a store that none has open: it takes no requests and fires
// no alarms, and answers this process alone.
func openStore(dir string, readOnly bool) (_ *target, err error) {
	// Where the mark of a store is missing none is made, and opening says whether there
	// never was one or it has lost it.
	readOnly = readOnly || !pebble.IsStore(dir)
	quiet := slog.New(slog.DiscardHandler)
	store, err := pebble.Open(pebble.Options{Dir: dir, ReadOnly: readOnly, Logger: quiet})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, store.Close())
		}
	}()
	host, err := actor.NewHost(actor.Options{Store: store, Logger: quiet})
	if err != nil {
		return nil, err
	}
	for _, class := range registered() {
		class.Register(host)
	}
	sessions, err := session.NewService(host, session.Options{Logger: quiet})
	if err != nil {
		return nil, err
	}
	api := admin.New(admin.Options{Host: host, Sessions: sessions, Store: store, Logger: quiet})
	local := admin.NewLocal(api)
	return &target{Client: local.Client, offline: true, close: func() error {
		errs := []error{local.Close()}
		api.Close()
		ctx, cancel := context.WithTimeout(context.Background(), closeMargin)
		defer cancel()
		errs = append(errs, host.Shutdown(ctx), sessions.Wait(ctx), store.Close())
		return errors.Join(errs...)
	}}, nil
}

// with asks for something, and prints it.
func with[T any](f *whichFlags, cmd *cobra.Command, r reach, ask func(context.Context, *target) (*T, error), text func(io.Writer, *T)) error {
	t, err := f.open(r)
	if err != nil {
		return err
	}
	answer, err := ask(cmd.Context(), t)
	if err = errors.Join(err, t.close()); err != nil {
		return err
	}
	return f.out.print(cmd.OutOrStdout(), answer, func(w io.Writer) { text(w, answer) })
}

// unknown is the error of a name that is none of those that there are.
func unknown(kind, name string, known []string, lists string) error {
	e := &usageError{err: fmt.Errorf("there is no %s %q", kind, name), hint: lists + " shows what there is"}
	if len(known) > 0 {
		e.hint = fmt.Sprintf("there are %s: %s", strings.Join(known, ", "), lists)
		if len(known) == 1 {
			e.hint = fmt.Sprintf("there is %s alone: %s", known[0], lists)
		}
	}
	if near, ok := config.Nearest(name, known); ok {
		e.hint = "did you mean " + near + "? " + e.hint
	}
	return e
}

// class looks, where nothing was found of a class or it was refused, whether there is one
// of that name at all. err is what else there is to say.
func (t *target) class(ctx context.Context, name string, err error) error {
	if answered, ok := errors.AsType[*admin.Error](err); err != nil && (!ok || answered.Status != http.StatusNotFound && !answered.Usage()) {
		return err
	}
	all, asked := t.Classes(ctx)
	if asked != nil {
		return errors.Join(err, asked)
	}
	var known []string
	for _, c := range all.Classes {
		if c.Name == name {
			return err
		}
		known = append(known, c.Name)
	}
	return unknown("class", name, known, "kalpa objects list")
}

// server looks, where no session of a server was found, whether the host has one of that
// name. A store that no host has open knows of none.
func (t *target) server(ctx context.Context, name string) error {
	if t.offline {
		return nil
	}
	all, err := t.Servers(ctx)
	if err != nil {
		return err
	}
	var known []string
	for _, s := range all.Servers {
		if s.Name == name {
			return nil
		}
		known = append(known, s.Name)
	}
	return unknown("server", name, known, "kalpa status")
}

// pageFlags choose a page of a list.
type pageFlags struct {
	limit int
	after string
	all   bool
}

func (p *pageFlags) add(set *pflag.FlagSet, limit int, after string) {
	set.IntVar(&p.limit, "limit", limit, "list `N` at most")
	set.StringVar(&p.after, "after", "", after)
	set.BoolVar(&p.all, "all", false, "all of them, however many there are")
}

// collect gets pages until there are as many as are wanted. get returns a page and
// where the next begins.
func collect[T any](p *pageFlags, get func(after string, limit int) (page []T, next string, err error)) (all []T, next string, err error) {
	if p.limit < 1 {
		return nil, "", &usageError{err: errors.New("--limit must be 1 or more")}
	}
	all, next = []T{}, p.after
	for {
		limit := admin.MaxPage
		if !p.all {
			limit = min(limit, p.limit-len(all))
		}
		page, following, err := get(next, limit)
		if err != nil {
			return nil, "", err
		}
		all, next = append(all, page...), following
		if next == "" || !p.all && len(all) >= p.limit {
			return all, next, nil
		}
	}
}

// more says how the next page is got.
func more(w io.Writer, next string) {
	if next != "" {
		fmt.Fprintf(w, "there are more: --after %s, or --all\n", next)
	}
}

// ago is a time as people say it: how long it is from now.
func ago(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	d := time.Since(at)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// dash is a text, or a dash where there is none.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// group is a command that has others below it and does nothing itself.
func group(use, short, long, rule string, f *whichFlags, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\n" + rule,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	f.add(cmd.PersistentFlags())
	cmd.AddCommand(below...)
	return cmd
}

// takes checks that a command has as many arguments as it names.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return &usageError{err: fmt.Errorf("%s: %s is missing", cmd.CommandPath(), names[len(args)]), hint: "kalpa " + cmd.UseLine()[len("kalpa "):]}
		case len(args) > len(names):
			return &usageError{err: fmt.Errorf("%s: unexpected argument %q", cmd.CommandPath(), args[len(names)]), hint: "kalpa " + cmd.UseLine()[len("kalpa "):]}
		}
		return nil
	}
}
