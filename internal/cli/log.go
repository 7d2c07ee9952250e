package cli

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/bounds"
)

// logLevel is the level of all loggers.
var logLevel slog.LevelVar

// SetLogLevel changes the level of the log: debug, info, warn or error.
func SetLogLevel(text string) error {
	var level slog.Level
	if level.UnmarshalText([]byte(text)) != nil {
		return bounds.OneOf("--log-level", text, "debug", "info", "warn", "error")
	}
	logLevel.Set(level)
	return nil
}

// AddLogFlags gives a command of its own the flags about the log, which all programs have, to read a file with them.
func AddLogFlags(cmd *cobra.Command) { new(logFlags).register(cmd) }

// logFlags configure logging, which goes to stderr.
type logFlags struct{ level, format string }

func (f *logFlags) register(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.level, "log-level", "info",
		"log messages of at least this `level`: debug, info, warn or error")
	flags.StringVar(&f.format, "log-format", "text", "`format` of log messages: text or json")
}

// CheckLogFlags returns the first mistake in the flags of AddLogFlags.
func CheckLogFlags(flags *pflag.FlagSet) error {
	f := logFlags{flags.Lookup("log-level").Value.String(), flags.Lookup("log-format").Value.String()}
	return f.check()
}

func (f *logFlags) check() error {
	if new(slog.Level).UnmarshalText([]byte(f.level)) != nil {
		return bounds.OneOf("--log-level", f.level, "debug", "info", "warn", "error")
	}
	return bounds.OneOf("--log-format", f.format, "text", "json")
}

func (f *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if err := SetLogLevel(f.level); err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: &logLevel}
	if f.format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}
