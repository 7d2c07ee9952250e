package groups

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"unicode/utf8"
)

// Limits of a Table.
const (
	MaxPrefixes = 100_000
	MaxName     = 64 // bytes
)

// Other is the group of all addresses that no prefix of a Table has.
const Other = "other"

// Table has the group of each prefix. An address belongs to the group of its longest prefix.
type Table map[netip.Prefix]string

// Load reads a Table from a file.
func Load(name string) (Table, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	t, err := Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// Read reads a Table. Each line has a prefix and the name of its group. Empty lines, and text after a #, do not count.
func Read(r io.Reader) (Table, error) {
	t := make(Table)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if err := t.add(lines.Text()); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(t) == 0 {
		return nil, errors.New("has no prefixes: write one in each line, with the name of its group behind it")
	}
	return t, nil
}

func (t Table) add(line string) error {
	line, _, _ = strings.Cut(line, "#")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return nil
	}
	if len(fields) != 2 {
		return fmt.Errorf("%d words: must be a prefix and the name of its group", len(fields))
	}
	prefix, err := parsePrefix(fields[0])
	if err != nil {
		return err
	}
	name := fields[1]
	switch {
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %+q is not UTF-8: convert the file, as with iconv -t UTF-8", name)
	case len(name) > MaxName:
		return fmt.Errorf("a name of %d bytes: must have at most %d", len(name), MaxName)
	case t[prefix] != "" && t[prefix] != name:
		return fmt.Errorf("%v is in group %s already", prefix, t[prefix])
	case len(t) == MaxPrefixes && t[prefix] == "":
		return fmt.Errorf("more than %d prefixes", MaxPrefixes)
	}
	t[prefix] = name
	return nil
}

// parsePrefix reads a prefix, or an address, which stands for itself.
func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.WithZone("").Unmap().Prefix(a.Unmap().BitLen())
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q: must be a prefix such as 192.0.2.0/24, or an address", text)
	}
	if p.Addr().Is4In6() {
		return p, fmt.Errorf("%q: write it as an IPv4 prefix", text)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%q: has more bits than its length: must be %v", text, p.Masked())
	}
	return p, nil
}

// Names returns the names of the groups.
func (t Table) Names() map[string]bool {
	names := make(map[string]bool)
	for _, name := range t {
		names[name] = true
	}
	return names
}
