package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/internal/pace"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/demo"
)

// demoName is the plugin that is hosted when nothing else is named.
const demoName = "demo"

func newServe() *cobra.Command {
	var f hostFlags
	serve := &cobra.Command{
		Use:        "serve [flags] [-- COMMAND [ARG...]]",
		Short:      "Host MCP servers until SIGTERM",
		SuggestFor: []string{"run", "start", "host", "up"},
		Long: `serve hosts MCP servers over Streamable HTTP.

Without arguments: the built-in demo server, at http://` + config.DefaultListen + `/mcp; in a
program that has objects, nothing but those.
With a command after --: that MCP server, a process for each session, at /mcp.
With --config: the servers that a file names, each at /mcp/NAME. The file is YAML or
JSON, or the file in which an MCP client keeps its mcpServers.

SIGTERM and SIGINT end it in order: open streams are parked for their clients to
resume, servers are ended, and what was not answered is stored as lost. A second
signal ends it at once.

Exit codes: 0 ended by a signal, 1 something did not work, 2 the command line or the
file is wrong, 5 the store is damaged, 6 ended in order because too many turns of
objects overran and could not be stopped: start it again.`,
		Example: `  kalpa serve
  kalpa serve -- npx -y @modelcontextprotocol/server-everything
  kalpa serve --env GITHUB_TOKEN -- github-mcp-server stdio
  kalpa serve --config kalpa.yaml --listen 127.0.0.1:9000`,
		Args: command,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, notes, err := f.load(args)
			if err != nil {
				return err
			}
			logger, level := newLogger(cmd.ErrOrStderr(), c.Log)
			for _, note := range notes {
				logger.Info("configuration", "note", note.String())
			}
			again := func() (*config.Config, config.Notes, error) { return f.load(args) }
			return serve(cmd.Context(), c, again, cmd.OutOrStdout(), logger, level)
		},
	}
	f.add(serve.Flags())
	return serve
}

// command takes arguments only behind --.
func command(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash == 0 && len(args) == 0:
		return &usageError{err: errors.New("nothing follows --"), hint: "a server's command does, as in " + cmd.CommandPath() + " -- npx -y @modelcontextprotocol/server-everything"}
	case dash != 0 && len(args) > 0:
		hint := "a server's command comes after --, as in " + cmd.CommandPath() + " -- " + strings.Join(args, " ")
		switch filepath.Ext(args[0]) {
		case ".yaml", ".yml", ".json":
			hint = "a configuration file comes after --config, as in " + cmd.CommandPath() + " --config " + args[0]
		}
		return &usageError{err: fmt.Errorf("unexpected argument %q", args[0]), hint: hint}
	}
	return nil
}

// plugins are the names of the plugins that this program has.
func plugins() []string {
	if _, ok := mcp.Lookup(demoName); !ok {
		mcp.Register(demoName, demo.Plugin())
	}
	return mcp.Registered()
}

// serve runs a host until ctx ends, a signal comes, or it fails. On SIGHUP it takes over
// what load says.
func serve(ctx context.Context, c *config.Config, load func() (*config.Config, config.Notes, error), stdout io.Writer, logger *slog.Logger, level *slog.LevelVar) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	// A log or a terminal that has gone away must not end the host. (Ignoring the
	// signal would do, but children would inherit that.)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	h, err := open(c, logger, level)
	if err != nil {
		return err
	}
	defer pace.Start(h.actors.Evicted, machineMemory())()
	h.announce(stdout)
	notify(logger, serving)
	beating, rest := context.WithCancel(context.WithoutCancel(ctx))
	defer rest()
	go h.beat(beating)

	look := time.NewTicker(wornEvery)
	defer look.Stop()
	var failed error
	for serving := true; serving; {
		serving = false
		select {
		case s := <-signals:
			logger.Info("ending in order; a second signal ends at once", "signal", s.String(), "drain", h.config().Drain)
		case <-ctx.Done():
		case failed = <-h.failed:
			logger.Error("ending", "error", failed)
		case <-look.C:
			if failed = worn(h.actors); failed == nil {
				serving = true
				continue
			}
			logger.Error("ending in order, to be started again", "error", failed)
		case <-hangup:
			serving = true
			next, notes, err := load()
			for _, note := range notes {
				logger.Info("configuration", "note", note.String())
			}
			if err == nil {
				err = h.reload(next)
			}
			if err != nil {
				logger.Error("the configuration is not taken over: all goes on as it was", "error", err)
			}
		}
	}
	c = h.config()

	notify(logger, ending)
	done := make(chan error, 1)
	go func() { done <- h.drain(c.Drain) }()
	asked, late := time.Now(), time.After(c.Drain+closeMargin)
	for draining := true; draining; {
		select {
		case err = <-done:
			draining = false
		case s := <-signals:
			if time.Since(asked) < oneSignal {
				continue
			}
			// Nothing acknowledged is lost: this is what a crash is, too.
			return fmt.Errorf("ended at once by a second signal (%v)", s)
		case <-late:
			return fmt.Errorf("ended while closing: not done %v after the drain time", closeMargin)
		}
	}
	if err = errors.Join(failed, err); err == nil {
		logger.Info("ended")
	}
	return err
}

// oneSignal is how long signals count as one: a shell or a supervisor that passes
// one on makes two of it.
const oneSignal = 500 * time.Millisecond

// closeMargin is how long closing the store may take after the drain time.
const closeMargin = 10 * time.Second
