package main

import (
	"strings"

	"github.com/spf13/pflag"

	"sluice/lab"
)

// conditionFlags are conditions, one flag each, as the user writes them.
type conditionFlags []struct{ key, value string }

func (c *conditionFlags) register(flags *pflag.FlagSet) {
	for _, f := range []struct{ key, usage string }{
		{"rate", "let at most this `rate` through, such as 3mbit"},
		{"queue", "let packets wait this `duration` for the rate (default 50ms)"},
		{"delay", "delay packets by this `duration`, one way"},
		{"loss", "lose this `share` of packets, such as 2%"},
		{"duplicate", "duplicate this `share` of packets"},
		{"reorder", "let later packets overtake this `share` of packets"},
	} {
		flags.Func(f.key, f.usage, func(value string) error {
			if _, err := lab.ParseConditions(f.key + "=" + value); err != nil {
				return err
			}
			*c = append(*c, struct{ key, value string }{f.key, value})
			return nil
		})
	}
}

func (c conditionFlags) String() string {
	var parts []string
	for _, f := range c {
		parts = append(parts, f.key+"="+f.value)
	}
	return strings.Join(parts, ",")
}
