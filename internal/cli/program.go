package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Program describes a command with subcommands.
type Program struct {
	Name        string
	Short, Long string // of the help text
	// Commands are the constructors of its subcommands.
	Commands []func(*Environment) *cobra.Command
	// Command is the constructor of the program's command without a subcommand, with a help text of its own. nil: it
	// shows the help text.
	Command func(*Environment) *cobra.Command
	// Warning is printed whenever the program starts. "": none.
	Warning string
	// ExitCode returns the exit code of an error, and whether it knows the error. It may be nil.
	ExitCode func(error) (code int, ok bool)
}

// Environment is all that a command may use of its process.
type Environment struct {
	Args           []string // without the name of the program
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string

	// Status is a line at the bottom of Stderr. The log is written above it.
	Status *StatusLine
}

// Main runs the command line of this process and returns the exit code.
func Main(p Program) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	onFirstSignal(cancel)
	return p.Execute(ctx, &Environment{
		Args:   os.Args[1:],
		Stdin:  os.Stdin,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Getenv: os.Getenv,
	})
}

// onFirstSignal calls end at the first SIGINT or SIGTERM, so that the command can clean up. Then it restores the
// default action, so that a second signal ends the process at once.
func onFirstSignal(end func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals)
		end()
	}()
}

// Execute runs the command line in env and returns the exit code.
func (p Program) Execute(ctx context.Context, env *Environment) int {
	env.Status = NewStatusLine(env.Stderr)
	if p.Warning != "" {
		fmt.Fprintf(env.Stderr, "%s: %s\n", p.Name, p.Warning)
	}
	root := p.root(env)
	root.SetArgs(helpFirst(root, env.Args))
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	running := false
	markStart(root, &running)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	if !running {
		err = UsageError{explainMistake(cmd, err)}
	}
	code := p.exitCode(err)
	text := strings.TrimSpace(err.Error())
	if code == ExitInterrupted {
		text = "interrupted"
	}
	fmt.Fprintf(env.Stderr, "%s: %s\n", p.Name, text)
	if code == ExitUsage {
		fmt.Fprintf(env.Stderr, "Run '%s --help' for usage.\n", strings.TrimSuffix(cmd.CommandPath(), " help"))
	}
	return code
}

func (p Program) root(env *Environment) *cobra.Command {
	log := &logFlags{}
	root := &cobra.Command{
		Use:   p.Name,
		Short: p.Short,
		Long:  p.Long + "\n\n" + exitCodes,
	}
	if p.Command != nil {
		root = p.Command(env)
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: p.Name} // which may have a space
	}
	root.Version = versionText()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := applySettings(cmd, env.Getenv); err != nil {
			return err
		}
		logger, err := log.logger(env.Status)
		if err == nil {
			slog.SetDefault(logger)
		}
		return ExplainOrigin(cmd.Flags(), err)
	}
	log.register(root)
	for _, command := range p.Commands {
		root.AddCommand(command(env))
	}
	if root.HasSubCommands() {
		refuseTopics(root)
		root.InitDefaultCompletionCmd()
	}
	return root
}

// markStart sets running when a command starts. Errors before that are mistakes in the command line. A command that
// only has others shows its help text.
func markStart(cmd *cobra.Command, running *bool) {
	run := cmd.RunE
	if run == nil {
		cmd.Args, run = cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		*running = true
		return run(cmd, args)
	}
	for _, sub := range cmd.Commands() {
		markStart(sub, running)
	}
}

func (p Program) exitCode(err error) int {
	if _, ok := errors.AsType[UsageError](err); ok {
		return ExitUsage
	}
	if p.ExitCode != nil {
		if code, ok := p.ExitCode(err); ok {
			return code
		}
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	return ExitFailed
}
