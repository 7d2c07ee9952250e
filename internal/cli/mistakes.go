package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// explainMistake says of a mistake in the command line what cobra and pflag do not: the name that the user may have
// meant, or the values that a flag takes.
func explainMistake(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return explainValue(bad.GetFlag(), "--"+bad.GetFlag().Name, bad.GetValue(), err)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		wrong := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName()) // -listen is a row of letters
		names := namesOf(cmd.Flags(), func(f *pflag.Flag) bool { return !f.Hidden })
		return fmt.Errorf("%w%s", err, didYouMean("--", wrong, names))
	}
	wrong := cmd.Flags().Arg(0)
	switch {
	case strings.HasPrefix(err.Error(), "accepts "): // so many arguments
		return fmt.Errorf("%w: %s", err, cmd.UseLine())
	case !strings.HasPrefix(err.Error(), "unknown command "):
		return err
	case !cmd.HasSubCommands():
		return fmt.Errorf("%q: %s takes flags only", wrong, cmd.CommandPath())
	}
	return unknownCommand(cmd, wrong)
}

// unknownCommand returns the error about a command that cmd does not have. It names what the user may have meant,
// or all that there are.
func unknownCommand(cmd *cobra.Command, wrong string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	advice := didYouMean("", wrong, names)
	switch {
	case len(names) == 0:
		advice = ": it has no commands"
	case advice == "":
		advice = "; there are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("unknown command %q for %q%s", wrong, cmd.CommandPath(), advice)
}

// explainValue returns the error about a value that a flag does not take. name is how the user has written the flag:
// with dashes in a command line, without in a file.
func explainValue(f *pflag.Flag, name, value string, err error) error {
	switch kind := kindOf(f); {
	case kind == "":
		return fmt.Errorf("%s: %w", name, errors.Unwrap(err)) // without what pflag adds
	case errors.Is(err, strconv.ErrRange) && f.Value.Type() != "uint8":
		err = fmt.Errorf("must be %s, nearer to 0", kind)
	default:
		err = errors.New("must be " + kind)
	}
	return fmt.Errorf("%s: %q: %w", name, value, err)
}

// kindOf says what values a flag takes. "": its own type says so.
func kindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "int", "int64":
		return "a whole number"
	case "uint", "uint32", "uint64":
		return "a whole number from 0 on"
	case "uint8":
		return "a whole number from 0 to 255"
	case "duration":
		return "a duration such as 30s or 1h"
	case "float64":
		return "a number"
	}
	if _, ok := f.Value.(pflag.SliceValue); ok {
		return "a list such as [a, b]"
	}
	return ""
}

// namesOf returns the names of some flags.
func namesOf(flags *pflag.FlagSet, some func(*pflag.Flag) bool) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if some(f) {
			names = append(names, f.Name)
		}
	})
	return names
}

// didYouMean names, behind a prefix, the name that differs least from a wrong one. It returns "" if all differ much.
func didYouMean(prefix, wrong string, names []string) (advice string) {
	const longest = 64
	if len(wrong) > longest {
		return ""
	}
	least := max(len(wrong)/3, 1) + 1
	for _, name := range names {
		if d := distance(name, wrong); d < least {
			advice, least = "; did you mean "+prefix+name+"?", d
		}
	}
	return advice
}

// distance returns how many letters have to be added, removed or replaced to make one word of another (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
