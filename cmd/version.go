package cmd

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/storage"
)

func newVersion() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			type is struct {
				Version  string `json:"version"`
				Revision string `json:"revision,omitempty"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
				Format   int    `json:"format"` // of the stores that it writes
			}
			v, revision := built()
			return out.print(cmd.OutOrStdout(), is{v, revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, storage.FormatVersion},
				func(w io.Writer) { fmt.Fprintln(w, "kalpa "+version()) })
		},
	}
	out.add(cmd.Flags())
	return cmd
}

// version says which build this is: the module's version, the revision that it was
// built from where the build recorded it, the toolchain and the platform.
func version() string {
	v, revision := built()
	if revision != "" {
		v += " " + revision
	}
	return fmt.Sprintf("%s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// codeVersion tells builds of this program apart, as far as they record what they were
// made of: a program with plugins of its own by its own revision.
func codeVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	parts := []string{info.Main.Path, version(), info.Main.Version}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.time" || s.Key == "vcs.modified" {
			parts = append(parts, s.Value)
		}
	}
	return strings.Join(parts, " ")
}

// built is the module's version, and the revision where it is known.
func built() (v, revision string) {
	v = "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Path == modulePath && info.Main.Version != "" {
			v = info.Main.Version
		}
		for _, dep := range info.Deps { // built into a program with plugins of its own
			if dep.Path == modulePath {
				v = dep.Version
			}
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && info.Main.Path == modulePath {
				revision = s.Value
			}
		}
	}
	return v, revision
}

const modulePath = "github.com/kalpahost/kalpa"

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{err: fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0])}
	}
	return nil
}
