package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"sluice/internal/files"
)

const (
	// ConfigFlag is the flag of commands whose other flags may be in a file.
	ConfigFlag = "config"
	// maxSettings is the largest size of such a file in bytes.
	maxSettings = 1 << 20
	// maxMistakes is how many mistakes are told at once.
	maxMistakes = 20
	// settingFrom is the annotation of a flag with the place that its value comes from, and behind it the places of the
	// elements of a list.
	settingFrom = "from"
)

// notSettings are flags that say what a command does now, and not how.
var notSettings = map[string]bool{ConfigFlag: true, "help": true, "replace": true, "background": true, "json": true}

// IsSetting reports whether a flag may be in a file.
func IsSetting(f *pflag.Flag) bool { return !notSettings[f.Name] && !f.Hidden }

// AddConfigFlag gives a command the flag --config. Its other flags may then be in that file, where their names are keys
// of YAML, and in the environment: SLUICE_LISTEN is --listen. A flag of the command line counts more than the file, and
// the environment more than both.
func AddConfigFlag(cmd *cobra.Command) {
	cmd.Flags().String(ConfigFlag, "", "YAML `file` with these flags, without the dashes, as keys; flags of the "+
		"command line override it, and variables such as SLUICE_LISTEN override both")
}

// Origin returns where the value of a flag comes from: line and column of a file, a variable, the command line, or "".
func Origin(f *pflag.Flag) string {
	switch from := f.Annotations[settingFrom]; {
	case len(from) > 0:
		return from[0]
	case f.Changed:
		return "--" + f.Name
	}
	return ""
}

// IsFrom reports whether the value of a flag comes from a file.
func IsFrom(f *pflag.Flag, path string) bool {
	from := f.Annotations[settingFrom]
	return len(from) > 0 && strings.HasPrefix(from[0], path+":")
}

var flagName = regexp.MustCompile(`--([a-z0-9-]+)`)

// ExplainOrigin adds to an error where the value that it is about comes from, if not from the command line: the value
// of the first flag in its text that somebody has set, or the element of a list that it quotes.
func ExplainOrigin(flags *pflag.FlagSet, err error) error {
	if err == nil {
		return nil
	}
	for _, name := range flagName.FindAllStringSubmatch(err.Error(), -1) {
		f := flags.Lookup(name[1])
		if f == nil || !f.Changed {
			continue
		}
		from := f.Annotations[settingFrom]
		if len(from) == 0 {
			return err
		}
		at := from[0]
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for i, v := range list.GetSlice() {
				if i+1 < len(from) && strings.Contains(err.Error(), strconv.Quote(v)) {
					at = from[i+1]
				}
			}
		}
		return fmt.Errorf("%s: %w", at, err)
	}
	return err
}

// applySettings sets flags by the file that --config names, and by the environment. Without --config, a command has
// neither.
func applySettings(cmd *cobra.Command, getenv func(string) string) error {
	flags := cmd.Flags()
	config := flags.Lookup(ConfigFlag)
	if config == nil {
		return nil
	}
	if path := config.Value.String(); path != "" {
		if err := ReadFlags(flags, path); err != nil {
			if _, ok := errors.AsType[*os.PathError](err); ok {
				err = fmt.Errorf("--%s: %w", ConfigFlag, err)
			}
			return UsageError{err}
		}
	}
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value := getenv(name); value != "" && IsSetting(f) {
			if err := set(flags, f, []string{value}, name); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	})
	return AsUsage(errors.Join(errs...))
}

// ReadFlags sets the flags that a file names, unless the command line has them. The error has a line for each mistake,
// with its line and column.
func ReadFlags(flags *pflag.FlagSet, path string) error {
	text, _, err := files.Read(path, maxSettings)
	if err != nil {
		return err
	}
	return setFlags(flags, path, text)
}

func setFlags(flags *pflag.FlagSet, path string, text []byte) error {
	var document yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&document); err == io.EOF {
		return nil // nothing but comments
	} else if err != nil {
		return explainYAML(path, err)
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return mistake(path, root, "must have lines such as listen: \":443\"")
	}
	var next yaml.Node
	if err := d.Decode(&next); err == nil {
		return mistake(path, &next, "must be one document, without ---")
	} else if err != io.EOF {
		return explainYAML(path, err)
	}
	var errs []error
	lines := make(map[string]int)
	for i := 0; i < len(root.Content) && len(errs) < maxMistakes; i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		err := setKey(flags, path, key, value)
		if line := lines[key.Value]; line > 0 {
			err = mistake(path, key, "%s: is in line %d, too", key.Value, line)
		}
		lines[key.Value] = key.Line
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// explainYAML returns an error of the parser, which knows no column, in the form of others.
func explainYAML(path string, err error) error {
	if text, ok := strings.CutPrefix(err.Error(), "yaml: line "); ok {
		return fmt.Errorf("%s:%s: is a line indented, or a quote or bracket missing?", path, text)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// setKey sets the flag that a key names.
func setKey(flags *pflag.FlagSet, path string, key, value *yaml.Node) error {
	f := flags.Lookup(key.Value)
	if f == nil || !IsSetting(f) {
		return mistake(path, key, "%s: no such setting%s", key.Value,
			didYouMean("", key.Value, namesOf(flags, IsSetting)))
	}
	list := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		list = value.Content
		if _, ok := f.Value.(pflag.SliceValue); !ok {
			return mistake(path, value, "%s: must be one value, and not a list", f.Name)
		}
	}
	values, from := []string(nil), []string{place(path, value)}
	for _, n := range list {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return mistake(path, n, "%s: must have a value, such as text or a number", f.Name)
		}
		values, from = append(values, n.Value), append(from, place(path, n))
	}
	if f.Changed {
		return nil // by the command line
	}
	if err := set(flags, f, values, from...); err != nil {
		return mistake(path, value, "%w", err)
	}
	return nil
}

// set sets a flag, and notes where its value comes from, and the elements of a list.
func set(flags *pflag.FlagSet, f *pflag.Flag, values []string, from ...string) (err error) {
	if list, ok := f.Value.(pflag.SliceValue); ok && len(values) != 1 {
		err = list.Replace(values)
		f.Changed = true
	} else {
		err = flags.Set(f.Name, values[0])
	}
	if err != nil {
		return explainValue(f, f.Name, strings.Join(values, ", "), err)
	}
	return flags.SetAnnotation(f.Name, settingFrom, from)
}

func place(path string, n *yaml.Node) string { return fmt.Sprintf("%s:%d:%d", path, n.Line, n.Column) }

func mistake(path string, n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %w", place(path, n), fmt.Errorf(format, args...))
}
