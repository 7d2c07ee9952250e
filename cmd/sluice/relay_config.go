package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/cli"
)

func newRelayConfig(env *cli.Environment) *cobra.Command {
	var f relayFlags
	var groups *cli.FlagGroups
	cmd := &cobra.Command{
		Use:   "config [flags]",
		Short: "Show the settings of a relay, and check files with them",
		Long: `Show the settings that sluice relay would have with the same flags, and where each comes from: a line of
the file, the command line, or a variable of the environment. Settings that nobody has set are commented out.

A file is YAML: the flags without their dashes as keys, one a line, such as listen: ":443". A list is [a, b]. A flag of
the command line overrides the file, and variables such as SLUICE_LISTEN override both.`,
		Example: `  sluice relay config --config /etc/sluice/relay.yaml
  sluice relay config check /etc/sluice/relay.yaml
  sluice relay config example >relay.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			writeSettings(env.Stdout, groups)
			return cli.AsUsage(cli.ExplainOrigin(cmd.Flags(), f.check()))
		},
	}
	groups = f.register(cmd)
	cmd.AddCommand(newConfigCheck(env), newConfigExample(env), newConfigSchema(env))
	return cmd
}

func newConfigCheck(env *cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say what is wrong in a file with settings, with line and column",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			flags, err := readConfig(args[0])
			if err == nil {
				err = errors.Join(openSecrets(flags)...)
			}
			if err != nil {
				return cli.AsUsage(err)
			}
			fmt.Fprintf(env.Stdout, "%s: nothing is wrong\n", args[0])
			return nil
		},
	}
}

// newSettings returns all settings, with their defaults and in groups.
func newSettings() (*relayFlags, *cobra.Command, *cli.FlagGroups) {
	f, cmd := new(relayFlags), new(cobra.Command)
	groups := f.register(cmd)
	groups.Add("Log", func(cmd *cobra.Command) {
		cli.AddLogFlags(cmd)
		cmd.Flags().AddFlagSet(cmd.PersistentFlags())
	})
	return f, cmd, groups
}

// readConfig returns the settings that a file has. The error names its mistakes.
func readConfig(path string) (*pflag.FlagSet, error) {
	f, cmd, _ := newSettings()
	flags := cmd.Flags()
	if err := cli.ReadFlags(flags, path); err != nil {
		return nil, err
	}
	err := cli.ExplainOrigin(flags, cmp.Or(withDashes(cmd.ValidateFlagGroups()), f.check(), cli.CheckLogFlags(flags)))
	if err != nil && !strings.HasPrefix(err.Error(), path+":") {
		err = fmt.Errorf("%s: %w", path, err) // about what the file does not have
	}
	return flags, err
}

var flagGroup = regexp.MustCompile(`\[[^]]+\]`)

// withDashes adds dashes to the names of flags in an error of cobra about a group of flags, as other errors have them.
func withDashes(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(flagGroup.ReplaceAllStringFunc(err.Error(), func(group string) string {
		return "[--" + strings.ReplaceAll(group[1:], " ", " --")
	}))
}

func newConfigExample(env *cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "Print a file with all settings, what each does, and its default",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := env.Stdout.Write(exampleConfig())
			return err
		},
	}
}

func newConfigSchema(env *cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON schema, by which editors complete and check files with settings",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.WriteJSON(env.Stdout, configSchema())
		},
	}
}

// writeSettings writes a file with the settings in force, each with where it comes from.
func writeSettings(w io.Writer, groups *cli.FlagGroups) {
	for heading, flags := range groups.Each() {
		fmt.Fprintf(w, "# --- %s ---\n", heading)
		for _, f := range flags {
			switch from := cli.Origin(f); {
			case !cli.IsSetting(f):
			case from == "":
				fmt.Fprintf(w, "# %s: %s\n", f.Name, settingText(f, f.DefValue))
			default:
				fmt.Fprintf(w, "%s: %s # %s\n", f.Name, settingText(f, f.Value.String()), from)
			}
		}
		fmt.Fprintln(w)
	}
}

// settingText returns a value as YAML.
func settingText(f *pflag.Flag, value string) string {
	switch _, list := f.Value.(pflag.SliceValue); {
	case list && !strings.HasPrefix(value, "["):
		return "[" + value + "]"
	case list:
		return value
	}
	switch f.Value.Type() {
	case "bool", "int", "uint64", "float64", "duration":
		return value
	}
	return strconv.Quote(value)
}

// exampleStart is what the settings of a public relay begin with.
const exampleStart = `
# Settings of sluice relay: /etc/sluice/relay.yaml, or any file that --config names. Flags of the command line override
# it. "sluice relay config check FILE" names mistakes in it, and docs/config.md says more.
#
# A public relay listens at port 443, and needs a certificate: in files, or for the names of acme, without tls-cert and
# tls-key. Who may do what is in a file with tokens.

`

// exampleSet are the settings that the example sets, for the package's service.
var exampleSet = map[string]string{
	"listen": `":443"`, "tls-cert": "/etc/sluice/cert.pem", "tls-key": "/etc/sluice/key.pem",
}

// exampleConfig returns a file with all settings. But for a few, they are commented out, and have their defaults.
func exampleConfig() []byte {
	_, _, groups := newSettings()
	text := strings.TrimLeft(exampleStart, "\n")
	for heading, flags := range groups.Each() {
		text += "# --- " + heading + " ---\n\n"
		for _, f := range flags {
			if !cli.IsSetting(f) {
				continue
			}
			_, usage := pflag.UnquoteUsage(f)
			text += wrapped("# ", usage)
			if value, ok := exampleSet[f.Name]; ok {
				text += f.Name + ": " + value + "\n\n"
			} else {
				text += "#" + f.Name + ": " + settingText(f, f.DefValue) + "\n\n"
			}
		}
	}
	return []byte(strings.TrimRight(text, "\n") + "\n")
}

// configSchema returns the JSON schema of files with settings.
func configSchema() map[string]any {
	_, _, groups := newSettings()
	properties := make(map[string]any)
	for _, flags := range groups.Each() {
		for _, f := range flags {
			if cli.IsSetting(f) {
				properties[f.Name] = settingSchema(f)
			}
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Settings of sluice relay",
		"type": "object", "additionalProperties": false, "properties": properties,
	}
}

func settingSchema(f *pflag.Flag) map[string]any {
	_, usage := pflag.UnquoteUsage(f)
	s := map[string]any{"description": usage, "type": "string"}
	if _, list := f.Value.(pflag.SliceValue); list {
		s["type"], s["items"] = []string{"string", "array"}, map[string]any{"type": "string"}
		return s
	}
	switch f.Value.Type() {
	case "bool":
		s["type"], s["default"] = "boolean", f.DefValue == "true"
	case "int", "uint64":
		n, _ := strconv.Atoi(f.DefValue)
		s["type"], s["default"] = "integer", n
	case "float64":
		n, _ := strconv.ParseFloat(f.DefValue, 64)
		s["type"], s["default"] = "number", n
	default:
		s["default"] = f.DefValue
	}
	return s
}

// wrapped returns a text as lines of at most 100 columns that begin with a prefix.
func wrapped(prefix, text string) string {
	const width = 100
	var b strings.Builder
	line := prefix
	for word := range strings.FieldsSeq(text) {
		if line != prefix && len(line)+len(word) > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = prefix
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}
