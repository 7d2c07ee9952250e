package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/pflag"

	"sluice/internal/cli"
)

// reloadable are the settings that SIGHUP puts in force, by name.
type reloadable map[string]func(*pflag.Flag) error

func newReloadable(q *qlogFlags) reloadable {
	return reloadable{
		"log-level":  func(flag *pflag.Flag) error { return cli.SetLogLevel(flag.Value.String()) },
		"qlog-match": q.setMatch,
	}
}

// followConfig reads the file of --config, if there is one, again at SIGHUP, until the context is done. It puts some
// settings in force, and says which others have changed: these need another process, which takes over without a lost
// session.
func followConfig(ctx context.Context, flags *pflag.FlagSet, settings reloadable) {
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
		switch changed, err := settings.changed(flags); {
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

// changed reads the file again, puts its own settings in force, and returns the names of others that are not.
func (r reloadable) changed(flags *pflag.FlagSet) (names []string, err error) {
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
		if set := r[old.Name]; set != nil {
			err = errors.Join(err, set(now))
			return
		}
		names = append(names, old.Name)
	})
	slices.Sort(names)
	return names, err
}
