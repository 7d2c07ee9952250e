// Package bounds checks settings against what is allowed, and says what is wrong in one form for flags and
// configurations alike: the name, the value, what it must be.
//
//	--fastpath-budget: 600: must be between 1 and 512
//	--scope: "all": must be one, path or url
package bounds

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Check returns an error unless v is between low and high, both included. name is what the user has set: a flag with
// its dashes, or the field of a configuration.
func Check[T cmp.Ordered](name string, v, low, high T) error {
	if low <= v && v <= high {
		return nil
	}
	return fmt.Errorf("%s: %v: must be between %v and %v", name, v, low, high)
}

// AtLeast returns an error if v is less than low.
func AtLeast[T cmp.Ordered](name string, v, low T) error {
	if low <= v {
		return nil
	}
	return fmt.Errorf("%s: %v: must be at least %v", name, v, low)
}

// OneOf returns an error unless v is one of allowed, of which there are at least two.
func OneOf(name, v string, allowed ...string) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	last := len(allowed) - 1
	first := strings.Join(allowed[:last], ", ")
	return fmt.Errorf("%s: %s: must be %s or %s", name, strconv.Quote(v), first, allowed[last])
}

// Address returns an error unless v is an address with a port, by number or name. allowed has examples.
func Address(name, v, allowed string) error {
	_, port, err := net.SplitHostPort(v)
	if err == nil {
		_, err = net.LookupPort("ip", port)
	}
	if err != nil {
		return fmt.Errorf("%s: %q: must be %s, with a port up to 65535", name, v, allowed)
	}
	return nil
}
