package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set when a release is built (see the Makefile).
var version string

// environment is all that a command may use of its process.
type environment struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string

	status *statusLine // on stderr, with the log above it
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, env *environment) int {
	env.status = newStatusLine(env.stderr)
	root := newRoot(env)
	root.SetArgs(env.args)
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	running := false
	markStart(root, &running)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !running {
		err = usageError{err}
	}
	fmt.Fprintf(env.stderr, "sluice: %s\n", strings.TrimSpace(err.Error()))
	code := exitCode(err)
	if code == exitUsage {
		fmt.Fprintf(env.stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}

func newRoot(env *environment) *cobra.Command {
	log := &logFlags{}
	root := &cobra.Command{
		Use:   "sluice",
		Short: "A Media over QUIC relay, with a publisher, a player and measurements",
		Long: `Sluice relays live media over QUIC (Media over QUIC Transport, draft 18).

` + exitCodes,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := log.logger(env.status)
			if err == nil {
				slog.SetDefault(logger)
			}
			return err
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	log.register(root)
	root.AddCommand(newRelay(env), newPub(env), newSub(env), newRTT(env), newLab(env), newDemo(env), newBench(env), newBenchLoad(env))
	return root
}

// markStart sets running when a command starts. Errors before that are in the command line.
func markStart(cmd *cobra.Command, running *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*running = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markStart(sub, running)
	}
}

// versionText names the version, the commit it was built from, and what built it.
func versionText() string {
	v := version
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
				v = s.Value
			}
		}
	}
	if v == "" {
		v = "unknown"
	}
	return fmt.Sprintf("sluice %s (moqt-18, %s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// logFlags configure logging, which goes to stderr.
type logFlags struct{ level, format string }

func (f *logFlags) register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.level, "log-level", "info", "log messages of at least this `level`: debug, info, warn or error")
	cmd.PersistentFlags().StringVar(&f.format, "log-format", "text", "log as text or as json (`format`)")
}

func (f *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var options slog.HandlerOptions
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return nil, fmt.Errorf("--log-level is %q, but has to be debug, info, warn or error", f.level)
	}
	options.Level = level
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &options)), nil
	}
	return nil, fmt.Errorf("--log-format is %q, but has to be text or json", f.format)
}

// isTerminal reports whether w is a terminal, where progress is shown.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
