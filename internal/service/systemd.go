package service

import (
	"context"
	"log/slog"

	"sluice/clock"

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
	for range clock.Every(interval/3, ctx.Done()) {
		if alive() {
			NotifySystemd(daemon.SdNotifyWatchdog)
		}
	}
}
