package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// backedUp is what kalpa backup and kalpa restore say.
type backedUp struct {
	Folder string    `json:"folder"`
	Taken  time.Time `json:"taken"`
	Of     string    `json:"of"` // the data folder that it was taken of
	Boot   uint32    `json:"boot"`
	Files  int       `json:"files"`
	Bytes  int64     `json:"bytes"`
}

func newBackup() *cobra.Command {
	f := &whichFlags{}
	cmd := &cobra.Command{
		Use: "backup FOLDER", Short: "Write a backup of the store into a new folder, while its host runs", Args: takes("FOLDER"),
		Long: `backup writes the store as it is between two commits. All that was acknowledged before
is in it, and nothing of a commit without the rest of it. The host goes on meanwhile.
FOLDER is there when all of the backup is in it and on the disk, and not before.

A backup has the rows of every session: keep it as you keep the store. kalpa restore
makes a store of it, and kalpa check --data FOLDER verifies it.

` + targetRule,
		Example: "  kalpa backup /backups/kalpa-$(date +%F)",
	}
	f.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return with(f, cmd, changing, func(ctx context.Context, t *target) (*backedUp, error) {
			in, out := io.Pipe()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				_ = out.CloseWithError(t.Backup(ctx, out)) // of a pipe: it never fails
			}()
			b, err := pebble.Unpack(in, args[0])
			_ = in.CloseWithError(errors.New("not wanted any more"))
			cancel()
			<-sent
			if err != nil {
				return nil, err
			}
			return &backedUp{args[0], b.Taken, b.Data, b.Boot, len(b.Files), b.Size()}, nil
		}, func(w io.Writer, b *backedUp) {
			fmt.Fprintf(w, "backed up %s as of %s: %d files, %s, in %s\n", b.Of, b.Taken.Local().Format("2006-01-02 15:04:05"), b.Files, bytesOf(b.Bytes), b.Folder)
		})
	}
	return cmd
}

func newRestore() *cobra.Command {
	var (
		data string
		out  output
	)
	cmd := &cobra.Command{
		Use: "restore BACKUP", Short: "Make a store of a backup, in an empty folder", Args: takes("BACKUP"),
		Long: `restore makes a store of a backup: of the folder that kalpa backup has written, or of the
tar archive that GET /v1/backup of the admin API has given. Every file is compared with
its checksum. The data folder must be empty or not there; it has the store when all of
it is on the disk, and not before.

The restored store counts its epochs on from far ahead of the backup's, so that what a
client remembers of the original since then is never taken for something of the
restored one. What was committed after the backup is not there: sessions that were
opened since are unknown (404), and those that were ended since are there again.

Never let the original and a restored store serve the same clients.`,
		Example: "  kalpa restore /backups/kalpa-2026-03-01 --data ./kalpa-data",
	}
	cmd.Flags().StringVar(&data, "data", "", "the `FOLDER` to make (default $"+dataVariable+" or "+config.DefaultData+")")
	out.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, _ := (&whichFlags{data: data}).folder()
		b, err := restore(args[0], dir)
		if err != nil {
			return restoreHint(err)
		}
		done := &backedUp{dir, b.Taken, b.Data, b.Boot, len(b.Files), b.Size()}
		return out.print(cmd.OutOrStdout(), done, func(w io.Writer) {
			fmt.Fprintf(w, "restored %s from the backup of %s as of %s: %d files, %s\n", dir, b.Data, b.Taken.Local().Format("2006-01-02 15:04:05"), done.Files, bytesOf(done.Bytes))
		})
	}
	return cmd
}

// restore makes a store of a backup's folder or archive.
func restore(backup, dir string) (*pebble.Backup, error) {
	info, err := os.Stat(backup)
	if err != nil {
		return nil, &usageError{err: err}
	}
	if info.IsDir() {
		return pebble.Restore(backup, dir)
	}
	in, err := os.Open(backup)
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // only read
	unpacked, err := os.MkdirTemp("", "kalpa-restore-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(unpacked) }()
	if _, err := pebble.Unpack(in, unpacked); err != nil {
		return nil, err
	}
	return pebble.Restore(unpacked, dir)
}

func restoreHint(err error) error {
	switch {
	case errors.Is(err, pebble.ErrNoBackup):
		return &hinted{err, "nothing was made; take another backup: this one is damaged, not complete, or something else"}
	case errors.Is(err, storage.ErrNewerFormat):
		return &hinted{err, "nothing was made; use the newer kalpa that wrote it"}
	}
	return &hinted{err, "nothing was made or changed; a store is made in an empty folder, or in one that does not exist yet"}
}
