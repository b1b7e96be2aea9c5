//go:build !unix

package stdio

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"syscall"
)

const overTime syscall.Signal = -1 // no signal

var errSystem = fmt.Errorf("servers as child processes are not supported on %s: %w", runtime.GOOS, errors.ErrUnsupported)

func newLauncher(launcherOptions, *slog.Logger) (launcher, error) { return nil, errSystem }

func pipe(bool) (r, w *os.File, err error) { return nil, nil, errSystem }

func writeNow(uintptr, []byte) (int, error) { return 0, errSystem }
