package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/mcp/session"
)

func newSessions() *cobra.Command {
	f := &whichFlags{}
	return group("sessions", "List sessions, look at one, end one",
		`sessions shows what the host has of its clients' sessions. A session is there whether it
is in memory or not: resident (it has a runtime), active (in memory, without one),
resting (in storage alone), ended (over, and about to go), or unreadable.`,
		targetRule, f, sessionsList(f), sessionsShow(f), sessionsEnd(f), sessionsDispose(f))
}

func sessionsList(f *whichFlags) *cobra.Command {
	var (
		q    admin.SessionQuery
		page pageFlags
	)
	cmd := &cobra.Command{
		Use: "list", Short: "List sessions, in the order of their ids", Args: noArgs,
		Example: `  kalpa sessions list --server files --state resident
  kalpa sessions list --prefix mjbb
  kalpa sessions list --all --output json`,
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Prefix, "prefix", "", "those whose ids begin with this `TEXT`")
	flags.StringVar(&q.Server, "server", "", "those of this `SERVER`")
	flags.StringVar(&q.State, "state", "", "those in this `STATE`: resident, active, resting, ended or unreadable")
	page.add(flags, admin.DefaultPage, "those after this `ID`")
	if err := cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(texts(session.Presences), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is this program's own
	}
	if err := cmd.RegisterFlagCompletionFunc("server", f.serverNames()); err != nil {
		panic(err) // the flag is this program's own
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return with(f, cmd, looking, func(ctx context.Context, t *target) (*admin.Sessions, error) {
			all, next, err := collect(&page, func(after string, limit int) ([]admin.Session, string, error) {
				q.After, q.Limit = after, limit
				got, err := t.Sessions(ctx, q)
				if err != nil {
					return nil, "", err
				}
				return got.Sessions, got.Next, nil
			})
			if err == nil && len(all) == 0 && q.Server != "" {
				err = t.server(ctx, q.Server)
			}
			return &admin.Sessions{Sessions: all, Next: next}, err
		}, func(w io.Writer, s *admin.Sessions) {
			if len(s.Sessions) == 0 {
				fmt.Fprintln(w, "no sessions")
				return
			}
			rows := [][]string{{"SESSION", "SERVER", "STATE", "ISOLATE", "OWED", "ACTIVE", "WAKES", "OPENED"}}
			for _, s := range s.Sessions {
				rows = append(rows, []string{s.ID, dash(s.Server), s.State, strconv.Itoa(s.Isolate), strconv.Itoa(s.Owed), ago(s.Activity), ago(s.Alarm), ago(s.Created)})
			}
			table(w, rows...)
			more(w, s.Next)
		})
	}
	return cmd
}

func texts[T ~string](all []T) (out []string) {
	for _, t := range all {
		out = append(out, string(t))
	}
	return out
}

func stamp(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Local().Format("2006-01-02 15:04:05") + " (" + ago(at) + ")"
}

func sessionsShow(f *whichFlags) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show all that can be seen of a session", Args: takes("ID"), ValidArgsFunction: f.sessionIDs(false),
		Long: `show prints what a session is doing: whose it is, which requests it owes an answer and
since when, what its streams hold. ID is what its client sends as Mcp-Session-Id.`,
		Example: "  kalpa sessions show mjbblt2xb6jh6rzhxc4ujuif3h",
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(f, cmd, looking, func(ctx context.Context, t *target) (*admin.SessionDetail, error) { return t.Session(ctx, args[0]) },
				func(w io.Writer, s *admin.SessionDetail) {
					epoch := "- (at rest)"
					if s.Epoch > 0 {
						epoch = strconv.FormatUint(s.Epoch, 10)
					}
					table(w, [][]string{
						{"session", s.ID}, {"server", dash(s.Server)}, {"state", s.State}, {"isolate", strconv.Itoa(s.Isolate)}, {"epoch", epoch},
						{"client", dash(s.Client)}, {"protocol", dash(s.Version)}, {"belongs to", dash(s.Subject)},
						{"opened", stamp(s.Created)}, {"last active", stamp(s.Activity)}, {"wakes", stamp(s.Alarm)},
						{"stored", fmt.Sprintf("%d rows, %d bytes", s.Rows, s.Bytes)}, {"owed", strconv.Itoa(s.Owed)},
					}...)
					if len(s.Waiting) > 0 {
						fmt.Fprintln(w)
						rows := [][]string{{"OWED ID", "METHOD", "TOOL", "SINCE", "STARTED", "STREAM"}}
						for _, o := range s.Waiting {
							rows = append(rows, []string{o.ID, o.Method, dash(o.Tool), ago(o.Since), yes(o.Started), o.Stream})
						}
						table(w, rows...)
					}
					if len(s.Streams) > 0 {
						fmt.Fprintln(w)
						rows := [][]string{{"STREAM", "EVENTS", "BYTES", "DELIVERED UP TO", "DONE"}}
						for _, st := range s.Streams {
							rows = append(rows, []string{st.ID, strconv.Itoa(st.Events), strconv.FormatInt(st.Bytes, 10), dash(st.Flushed), yes(st.Done)})
						}
						table(w, rows...)
					}
				})
		},
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func sessionsEnd(f *whichFlags) *cobra.Command {
	return &cobra.Command{
		Use: "end ID...", Short: "End sessions for good, as their clients do with DELETE", ValidArgsFunction: f.sessionIDs(true),
		Long: `end ends sessions for good: what they owe is answered as lost, their streams end, their
runtimes are closed, and their clients get 404 from then on.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return takes("ID")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			type ended struct {
				Ended []string `json:"ended"`
			}
			return with(f, cmd, changing, func(ctx context.Context, t *target) (*ended, error) {
				all, errs := &ended{Ended: []string{}}, []error{}
				for _, id := range args {
					if _, err := t.EndSession(ctx, id); err != nil {
						errs = append(errs, err)
						continue
					}
					all.Ended = append(all.Ended, id)
				}
				if len(errs) > 0 && len(all.Ended) > 0 {
					errs = append(errs, fmt.Errorf("ended were %s", strings.Join(all.Ended, ", ")))
				}
				return all, errors.Join(errs...)
			}, func(w io.Writer, e *ended) {
				for _, id := range e.Ended {
					fmt.Fprintf(w, "session %s has ended\n", id)
				}
			})
		},
	}
}

func sessionsDispose(f *whichFlags) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use: "dispose ID", Short: "Close the runtime of a session, as if it had been idle",
		Long: `dispose closes the runtime of a session: its process ends, the session goes on, and its
next request builds another. A session that owes answers is left alone; with --force
they are answered as lost.`,
		Args: takes("ID"), ValidArgsFunction: f.sessionIDs(false),
	}
	cmd.Flags().BoolVar(&force, "force", false, "also when requests are under way, which are lost then")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return with(f, cmd, changing, func(ctx context.Context, t *target) (*admin.Disposed, error) { return t.Dispose(ctx, args[0], force) },
			func(w io.Writer, d *admin.Disposed) {
				if d.Was {
					fmt.Fprintf(w, "the runtime of session %s is closed\n", d.Session)
				} else {
					fmt.Fprintf(w, "session %s has no runtime\n", d.Session)
				}
			})
	}
	return cmd
}
