package cli

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"sluice/internal/bounds"
)

// logFlags configure logging, which goes to stderr.
type logFlags struct{ level, format string }

func (f *logFlags) register(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.level, "log-level", "info",
		"log messages of at least this `level`: debug, info, warn or error")
	flags.StringVar(&f.format, "log-format", "text", "`format` of log messages: text or json")
}

func (f *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	if err := bounds.OneOf("--log-format", f.format, "text", "json"); err != nil {
		return nil, err
	}
	var level slog.Level
	if level.UnmarshalText([]byte(f.level)) != nil {
		return nil, bounds.OneOf("--log-level", f.level, "debug", "info", "warn", "error")
	}
	options := &slog.HandlerOptions{Level: level}
	if f.format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}
