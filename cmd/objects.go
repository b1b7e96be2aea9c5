package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/admin"
)

func newObjects() *cobra.Command {
	f := &whichFlags{}
	return group("objects", "List objects, look into them, move and delete them",
		`objects shows what is stored of objects of any class; sessions are those of the class
mcp-session.`,
		targetRule, f, objectsList(f), objectsShow(f), objectsExport(f), objectsImport(f), objectsDelete(f))
}

func objectsList(f *whichFlags) *cobra.Command {
	var (
		prefix string
		page   pageFlags
	)
	cmd := &cobra.Command{
		Use: "list [CLASS]", Short: "List the objects of a class by name; without one, the classes",
		ValidArgsFunction: f.objectNames(false),
		Example:           "  kalpa objects list\n  kalpa objects list counter --prefix a",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return takes("CLASS")(cmd, args)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "those whose names begin with this `TEXT`")
	page.add(cmd.Flags(), admin.DefaultPage, "those after this `NAME`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return with(f, cmd, looking, func(ctx context.Context, t *target) (*admin.Classes, error) { return t.Classes(ctx) },
				func(w io.Writer, all *admin.Classes) {
					rows := [][]string{{"CLASS", "IN MEMORY", "OF THIS PROGRAM"}}
					for _, c := range all.Classes {
						rows = append(rows, []string{c.Name, strconv.FormatInt(c.InMemory, 10), yes(c.Registered)})
					}
					table(w, rows...)
				})
		}
		return with(f, cmd, looking, func(ctx context.Context, t *target) (*admin.Objects, error) {
			all, next, err := collect(&page, func(after string, limit int) ([]admin.Object, string, error) {
				got, err := t.Objects(ctx, args[0], prefix, after, limit)
				if err != nil {
					return nil, "", err
				}
				return got.Objects, got.Next, nil
			})
			if err == nil && len(all) == 0 {
				err = t.class(ctx, args[0], nil)
			}
			return &admin.Objects{Objects: all, Next: next}, err
		}, func(w io.Writer, all *admin.Objects) {
			if len(all.Objects) == 0 {
				fmt.Fprintln(w, "no objects")
				return
			}
			rows := [][]string{{"NAME", "ISOLATE", "IN MEMORY", "ALARM"}}
			for _, o := range all.Objects {
				rows = append(rows, []string{o.Name, strconv.Itoa(o.Isolate), yes(o.Epoch > 0), ago(o.Alarm)})
			}
			table(w, rows...)
			more(w, all.Next)
		})
	}
	return cmd
}

func objectsShow(f *whichFlags) *cobra.Command {
	var (
		limit int
		after string
	)
	cmd := &cobra.Command{
		Use: "show CLASS NAME", Short: "Show an object's alarm, schedules and rows", Args: takes("CLASS", "NAME"), ValidArgsFunction: f.objectNames(true),
		Long: `show prints what is stored of an object. Keys and values are printed as Go writes texts;
of long values there is the beginning. kalpa objects export has all of them whole.`,
	}
	cmd.Flags().IntVar(&limit, "limit", admin.DefaultPage, "list `N` rows at most, and no more than 1000")
	cmd.Flags().StringVar(&after, "after", "", "the rows after this `PLACE`, which the page before has named")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return with(f, cmd, looking, func(ctx context.Context, t *target) (*admin.ObjectDetail, error) {
			o, err := t.Object(ctx, args[0], args[1], after, limit)
			if err != nil {
				err = t.class(ctx, args[0], err)
			}
			return o, err
		},
			func(w io.Writer, o *admin.ObjectDetail) {
				memory := "no"
				if o.Epoch > 0 {
					memory = "yes, epoch " + strconv.FormatUint(o.Epoch, 10)
				}
				table(w, [][]string{{"object", o.Class + " " + o.Name}, {"isolate", strconv.Itoa(o.Isolate)}, {"in memory", memory}, {"alarm", stamp(o.Alarm)}}...)
				if len(o.Schedules) > 0 {
					fmt.Fprintln(w)
					rows := [][]string{{"SCHEDULE", "KIND", "SPEC", "NEXT", "FAILED", "RUNS"}}
					for _, s := range o.Schedules {
						rows = append(rows, []string{s.ID, s.Kind, s.Spec, ago(s.Next), strconv.Itoa(s.Failed), s.Callback})
					}
					table(w, rows...)
				}
				fmt.Fprintln(w)
				rows := [][]string{{"KEY", "BYTES", "VALUE"}}
				for _, r := range o.Rows {
					value := quoted(r.Value, r.Value64)
					if len(value) > 100 {
						value = value[:97] + "..."
					}
					rows = append(rows, []string{quoted(r.Key, r.Key64), strconv.Itoa(r.Size), value})
				}
				table(w, rows...)
				if o.Next != "" {
					fmt.Fprintf(w, "there are more: --after %s\n", o.Next)
				}
			})
	}
	return cmd
}

func quoted(text *string, b []byte) string {
	if text != nil {
		b = []byte(*text)
	}
	return strconv.QuoteToASCII(string(b))
}

func objectsExport(f *whichFlags) *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use: "export CLASS NAME", Short: "Write all of an object as text: rows, schedules, alarm", Args: takes("CLASS", "NAME"), ValidArgsFunction: f.objectNames(true),
		Long: `export writes an object as lines of JSON, as it is at one moment, to stdout or a file.
kalpa objects import makes an object of them.`,
		Example: "  kalpa objects export counter a > a.ndjson",
	}
	cmd.Flags().StringVar(&file, "file", "", "write to this `FILE`, which must not exist")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		t, err := f.open(looking)
		if err != nil {
			return err
		}
		defer func() { err = joined(err, t.close()) }()
		export := func(w io.Writer) error {
			err := t.Export(cmd.Context(), args[0], args[1], w)
			if err != nil {
				err = t.class(cmd.Context(), args[0], err)
			}
			return err
		}
		if file == "" {
			return export(cmd.OutOrStdout())
		}
		out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return &usageError{err: fmt.Errorf("--file: %w", err)}
		}
		err = joined(export(out), out.Close())
		if err != nil {
			_ = os.Remove(file) // half of an export is none
		}
		return err
	}
	return cmd
}

// joined is the first of two errors, or both.
func joined(a, b error) error {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return fmt.Errorf("%w; %w", a, b)
}

func objectsImport(f *whichFlags) *cobra.Command {
	replace := false
	cmd := &cobra.Command{
		Use: "import [FILE]", Short: "Make an object of what export has written",
		Long: `import makes an object of what kalpa objects export has written, in one commit; from
stdin without a FILE. One that exists is left alone unless --replace is given.`,
		Example: "  kalpa objects import a.ndjson --replace",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return takes("FILE")(cmd, args)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "also when the object exists, which is reset then")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := cmd.InOrStdin()
		if len(args) == 1 {
			file, err := os.Open(args[0])
			if err != nil {
				return &usageError{err: err}
			}
			defer file.Close() //nolint:errcheck // only read
			in = file
		}
		return with(f, cmd, changing, func(ctx context.Context, t *target) (*admin.Imported, error) { return t.Import(ctx, in, replace) },
			func(w io.Writer, i *admin.Imported) { fmt.Fprintf(w, "object %s %s was imported\n", i.Class, i.Name) })
	}
	return cmd
}

func objectsDelete(f *whichFlags) *cobra.Command {
	return &cobra.Command{
		Use: "delete CLASS NAME", Short: "Delete all that is stored of an object", Args: takes("CLASS", "NAME"), ValidArgsFunction: f.objectNames(true),
		Long: `delete deletes all rows of an object, its schedules and its alarm, in one commit. An
object that is in memory is reset. A session is better ended: kalpa sessions end.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(f, cmd, changing, func(ctx context.Context, t *target) (*admin.Removed, error) {
				removed, err := t.Remove(ctx, args[0], args[1])
				if err != nil {
					err = t.class(ctx, args[0], err)
				}
				return removed, err
			},
				func(w io.Writer, r *admin.Removed) { fmt.Fprintf(w, "object %s %s was deleted\n", r.Class, r.Name) })
		},
	}
}
