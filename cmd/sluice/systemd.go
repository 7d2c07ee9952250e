package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifySystemd tells systemd what state the service is in. Without systemd it does nothing.
func notifySystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		slog.Warn("cannot notify systemd", "error", err)
	}
}

// feedWatchdog tells systemd that the service is alive, as often as its unit wants, while alive says so.
func feedWatchdog(ctx context.Context, alive func() bool) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if alive() {
				notifySystemd(daemon.SdNotifyWatchdog)
			}
		case <-ctx.Done():
			return
		}
	}
}
