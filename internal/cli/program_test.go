package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// errKnown is an error whose exit code the program knows.
var errKnown = errors.New("known")

// tool is a program with a command "fail" that returns an error.
func tool(err error) Program {
	return Program{
		Name: "tool", Short: "Fail", Long: "Fails as it is told to.",
		Commands: []func(*Environment) *cobra.Command{func(env *Environment) *cobra.Command {
			cmd := &cobra.Command{Use: "fail", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
				slog.Info("running", "as", env.Getenv("AS"))
				return err
			}}
			cmd.Flags().Uint8("times", 1, "")
			return cmd
		}},
		ExitCode: func(err error) (int, bool) { return ExitDiffers, errors.Is(err, errKnown) },
	}
}

// run executes a command line and returns its exit code and output.
func run(t *testing.T, p Program, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	before := slog.Default()
	defer slog.SetDefault(before)
	var out, errs bytes.Buffer
	env := &Environment{
		Args: append([]string{}, args...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(name string) string { return strings.ToLower(name) },
	}
	code = p.Execute(t.Context(), env)
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	const usage = "Run 'tool fail --help' for usage.\n"
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{nil, ExitOK, ""},
		{errors.New("no luck\n"), ExitFailed, "tool: no luck\n"},
		{Usage("--level: %d: must be less", 3), ExitUsage, "tool: --level: 3: must be less\n" + usage},
		{fmt.Errorf("wrapped: %w", AsUsage(errKnown)), ExitUsage, "tool: wrapped: known\n" + usage},
		{AsUsage(nil), ExitOK, ""},
		{errors.Join(errKnown, context.Canceled), ExitDiffers, "tool: known\ncontext canceled\n"},
		{fmt.Errorf("read: %w", context.Canceled), ExitInterrupted, "tool: interrupted\n"},
	} {
		code, stdout, stderr := run(t, tool(c.err), "fail", "--log-level", "error")
		require.Equal(t, c.code, code, "%v", c.err)
		require.Equal(t, c.text, stderr)
		require.Empty(t, stdout)
	}
}

func TestMistakesInTheCommandLine(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"fly", "tool: unknown command \"fly\" for \"tool\"; there are completion, fail, help\n" +
			"Run 'tool --help' for usage.\n"},
		{"help fly", "tool: unknown command \"fly\" for \"tool\"; there are completion, fail, help\n" +
			"Run 'tool --help' for usage.\n"},
		{"help fail now", "tool: unknown command \"now\" for \"tool fail\": it has no commands\n" +
			"Run 'tool --help' for usage.\n"},
		{"help completion zssh", "tool: unknown command \"zssh\" for \"tool completion\"; did you mean zsh?\n" +
			"Run 'tool --help' for usage.\n"},
		{"completion help fly", "tool: unknown command \"fly\" for \"tool completion\"; there are bash, fish, " +
			"powershell, zsh\nRun 'tool --help' for usage.\n"},
		{"completion zssh", "tool: unknown command \"zssh\" for \"tool completion\"; did you mean zsh?\n" +
			"Run 'tool completion --help' for usage.\n"},
		{"fal", "tool: unknown command \"fal\" for \"tool\"; did you mean fail?\nRun 'tool --help' for usage.\n"},
		{"fail now", "tool: \"now\": tool fail takes flags only\nRun 'tool fail --help' for usage.\n"},
		{"fail --fast", "tool: unknown flag: --fast\nRun 'tool fail --help' for usage.\n"},
		{"fail --log-levl warn", "tool: unknown flag: --log-levl; did you mean --log-level?\n" +
			"Run 'tool fail --help' for usage.\n"},
		{"fail -log-level warn", "tool: unknown shorthand flag: 'l' in -log-level; did you mean --log-level?\n" +
			"Run 'tool fail --help' for usage.\n"},
		{"fail --times -1", "tool: --times: \"-1\": must be a whole number from 0 to 255\n" +
			"Run 'tool fail --help' for usage.\n"},
		{"fail --times 256", "tool: --times: \"256\": must be a whole number from 0 to 255\n" +
			"Run 'tool fail --help' for usage.\n"},
		{"fail --log-level loud", "tool: --log-level: \"loud\": must be debug, info, warn or error\n" +
			"Run 'tool fail --help' for usage.\n"},
		{"fail --log-format xml", "tool: --log-format: \"xml\": must be text or json\n" +
			"Run 'tool fail --help' for usage.\n"},
	} {
		code, _, stderr := run(t, tool(nil), strings.Fields(c.args)...)
		require.Equal(t, ExitUsage, code)
		require.Equal(t, c.want, stderr)
	}
}

func TestHelpOfCommands(t *testing.T) {
	p := tool(nil)
	p.Commands = append(p.Commands, func(env *Environment) *cobra.Command {
		cmd := &cobra.Command{Use: "other", DisableFlagParsing: true}
		cmd.RunE = func(_ *cobra.Command, args []string) error {
			_, err := fmt.Fprintln(env.Stdout, "other", args)
			return err
		}
		return cmd
	})
	for args, want := range map[string]string{
		"help":                "Fails as it is told to.",
		"help fail":           "tool fail [flags]",
		"help completion zsh": "tool completion zsh [flags]",
		"completion help zsh": "tool completion zsh [flags]",
		"help other":          "other [help]",
		"help other top":      "other [help top]",
	} {
		code, stdout, stderr := run(t, p, strings.Fields(args)...)
		require.Equal(t, ExitOK, code, stderr)
		require.Contains(t, stdout, want)
	}
}

func TestLogFormats(t *testing.T) {
	_, _, text := run(t, tool(nil), "fail")
	require.Contains(t, text, "level=INFO msg=running as=as\n")
	_, _, json := run(t, tool(nil), "fail", "--log-format", "json")
	require.Contains(t, json, `"level":"INFO","msg":"running","as":"as"}`)
}

func TestHelpAndVersion(t *testing.T) {
	_, help, _ := run(t, tool(nil))
	require.Contains(t, help, "Fails as it is told to.\n\nExit codes: 0 success, 1 failure")
	code, text, _ := run(t, tool(nil), "--version")
	require.Equal(t, ExitOK, code)
	require.Regexp(t, `^tool version \S+ \(moqt-16, 18 to 22, go1\.\S+, \w+/\w+\)\n$`, text)
}
