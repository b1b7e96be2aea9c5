package cmd

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/kalpahost/kalpa/storage"
)

// What a service manager is told, in systemd's words (sd_notify).
const (
	serving = daemon.SdNotifyReady
	ending  = daemon.SdNotifyStopping
	alive   = daemon.SdNotifyWatchdog
)

// notify tells the service manager that has started the host how it is doing, where
// one wants to know: NOTIFY_SOCKET names its socket.
func notify(logger *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logger.Warn("the service manager can't be told", "state", state, "error", err)
	}
}

// heart is the object that is claimed at each beat. It is never written.
var heart = storage.ID{Class: "kalpa", Name: "heart"}

// beat tells the service manager that the host lives, twice in each period after
// which it would be restarted (WatchdogSec), until ctx ends. A host whose store does
// not answer does not live.
func (h *host) beat(ctx context.Context) {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		h.log.Warn("the service manager's watchdog is left alone", "error", err)
	}
	if period == 0 {
		return
	}
	beats := time.NewTicker(period / 2)
	defer beats.Stop()
	for {
		limit, cancel := context.WithTimeout(ctx, period/2)
		_, err := storage.Claim(limit, h.store, heart) // through the committer's queue, without a write
		cancel()
		switch {
		case err == nil:
			notify(h.log, alive)
		case ctx.Err() == nil:
			h.log.Error("the store does not answer, so the service manager's watchdog is not answered either", "error", err)
		}
		select {
		case <-beats.C:
		case <-ctx.Done():
			return
		}
	}
}
