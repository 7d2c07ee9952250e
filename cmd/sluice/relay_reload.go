package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/pflag"

	"sluice/internal/cli"
)

// followConfig reads the file of --config, if there is one, again at SIGHUP, until the context is done. It puts the
// level of the log in force, and says which other settings have changed: these need another process, which takes over
// without a lost session.
func followConfig(ctx context.Context, flags *pflag.FlagSet) {
	if flags.Lookup(cli.ConfigFlag).Value.String() == "" {
		return
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-hangups:
		case <-ctx.Done():
			return
		}
		switch changed, err := changedSettings(flags); {
		case err != nil:
			slog.Error("the settings stay as they are", "err", err)
		case len(changed) > 0:
			slog.Warn("settings have changed that need another process: systemctl reload, or the same command with "+
				"--replace", "settings", changed)
		default:
			slog.Info("no setting has changed that needs another process")
		}
	}
}

// changedSettings reads the file again, and returns the settings that are not those in force. It puts the level of the
// log in force.
func changedSettings(flags *pflag.FlagSet) (names []string, err error) {
	path := flags.Lookup(cli.ConfigFlag).Value.String()
	read, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	flags.VisitAll(func(old *pflag.Flag) {
		now := read.Lookup(old.Name)
		if now == nil || !cli.IsSetting(old) || old.Changed && !cli.IsFrom(old, path) ||
			now.Value.String() == old.Value.String() {
			return
		}
		if old.Name == "log-level" {
			err = cli.SetLogLevel(now.Value.String())
			return
		}
		names = append(names, old.Name)
	})
	slices.Sort(names)
	return names, err
}
