package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// NotifySystemd tells systemd the state of the service. Without systemd it does nothing.
func NotifySystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		slog.Warn("cannot notify systemd", "err", err)
	}
}

// FeedWatchdog tells systemd that the service is alive, three times per WatchdogSec of its unit, while alive returns
// true.
func FeedWatchdog(ctx context.Context, alive func() bool) {
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
				NotifySystemd(daemon.SdNotifyWatchdog)
			}
		case <-ctx.Done():
			return
		}
	}
}
