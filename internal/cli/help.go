package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// refuseTopics has the command help refuse an argument that names no command. Cobra's own ends with 0.
func refuseTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Run = nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		cmd := root
		for len(args) > 0 && !cmd.DisableFlagParsing {
			subs := cmd.Commands()
			i := slices.IndexFunc(subs, func(c *cobra.Command) bool { return c.Name() == args[0] })
			if i < 0 {
				return AsUsage(unknownCommand(cmd, args[0]))
			}
			cmd, args = subs[i], args[1:]
		}
		if cmd.DisableFlagParsing { // another program has the help text
			return cmd.RunE(cmd, append([]string{"help"}, args...))
		}
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		return cmd.Help()
	}
}

// helpFirst makes "COMMAND help ARGS" of a command with others the same as "help COMMAND ARGS".
func helpFirst(root *cobra.Command, args []string) []string {
	i := slices.Index(args, "help")
	if i < 1 {
		return args
	}
	cmd, rest, err := root.Find(args[:i])
	if err != nil || len(rest) > 0 || !cmd.HasSubCommands() {
		return args
	}
	return slices.Concat(args[i:i+1], args[:i], args[i+1:])
}
