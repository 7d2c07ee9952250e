package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagGroups shows the flags of a command under headings, in the order in which they are registered. It is for commands
// with many.
type FlagGroups struct {
	cmd    *cobra.Command
	groups []flagGroup
}

type flagGroup struct {
	heading string
	flags   []*pflag.Flag
}

// GroupFlags returns the groups of a command, none yet.
func GroupFlags(cmd *cobra.Command) *FlagGroups { return &FlagGroups{cmd: cmd} }

// Add adds a group with the flags that register registers.
func (g *FlagGroups) Add(heading string, register func(*cobra.Command)) {
	flags := g.cmd.Flags()
	flags.SortFlags = false
	known := make(map[*pflag.Flag]bool)
	flags.VisitAll(func(f *pflag.Flag) { known[f] = true })
	register(g.cmd)
	group := flagGroup{heading: heading}
	flags.VisitAll(func(f *pflag.Flag) {
		if !known[f] {
			group.flags = append(group.flags, f)
		}
	})
	g.groups = append(g.groups, group)
}

// Show makes the help text show the groups, after one with flags that are taken from the others: those that most users
// need.
func (g *FlagGroups) Show(heading string, first ...string) {
	most := flagGroup{heading: heading}
	for _, name := range first {
		f := g.cmd.Flags().Lookup(name)
		for i := range g.groups {
			g.groups[i].flags = slices.DeleteFunc(g.groups[i].flags, func(o *pflag.Flag) bool { return o == f })
		}
		most.flags = append(most.flags, f)
	}
	g.groups = slices.DeleteFunc(g.groups, func(g flagGroup) bool { return len(g.flags) == 0 })
	g.groups = slices.Insert(g.groups, 0, most)
	g.cmd.SetUsageFunc(g.show)
}

// show prints the help text of a command, or of a subcommand, which has no groups. A template would do the same, but a
// program with templates keeps all methods of all types: the linker cannot know which ones a template calls.
func (g *FlagGroups) show(c *cobra.Command) error {
	var b bytes.Buffer
	out := c.OutOrStderr()
	c.SetOut(&b)
	err := new(cobra.Command).UsageFunc()(c)
	c.SetOut(out)
	text := b.String()
	if c == g.cmd {
		text = strings.Replace(text, strings.TrimRight(c.LocalFlags().FlagUsages(), "\n"), g.usages(), 1)
	}
	_, werr := io.WriteString(out, text)
	return errors.Join(err, werr)
}

// Each yields the groups: their headings and flags.
func (g *FlagGroups) Each() iter.Seq2[string, []*pflag.Flag] {
	return func(yield func(string, []*pflag.Flag) bool) {
		for _, group := range g.groups {
			if !yield(group.heading, group.flags) {
				return
			}
		}
	}
}

// usages returns the headings, each with the lines of its flags.
func (g *FlagGroups) usages() string {
	var b strings.Builder
	for _, group := range g.groups {
		set := pflag.NewFlagSet(group.heading, pflag.ContinueOnError)
		set.SortFlags = false
		for _, f := range group.flags {
			set.AddFlag(f)
		}
		fmt.Fprintf(&b, "\n  %s:\n%s", group.heading, set.FlagUsages())
	}
	return strings.TrimRight(b.String(), "\n")
}
