package groups

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

func TestRead(t *testing.T) {
	got, err := Read(strings.NewReader(`# customers
192.0.2.0/24   blue
192.0.2.128/25 red # the upper half

2001:db8::/32  blue
203.0.113.7    red
2001:db8:1::7  red
`))
	require.NoError(t, err)
	require.Equal(t, Table{
		netip.MustParsePrefix("192.0.2.0/24"):      "blue",
		netip.MustParsePrefix("192.0.2.128/25"):    "red",
		netip.MustParsePrefix("2001:db8::/32"):     "blue",
		netip.MustParsePrefix("203.0.113.7/32"):    "red",
		netip.MustParsePrefix("2001:db8:1::7/128"): "red",
	}, got)
	require.Equal(t, map[string]bool{"blue": true, "red": true}, got.Names())
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "has no prefixes",
		"192.0.2.0/24":                      "line 1: 1 words: must be a prefix and the name of its group",
		"192.0.2.0/24 blue sky":             "line 1: 3 words",
		"\nhost blue":                       `line 2: "host": must be a prefix such as 192.0.2.0/24, or an address`,
		"192.0.2.1/24 blue":                 `has more bits than its length: must be 192.0.2.0/24`,
		"::ffff:192.0.2.0/120 blue":         `write it as an IPv4 prefix`,
		"192.0.2.0/24 a\n192.0.2.0/24 b":    "line 2: 192.0.2.0/24 is in group a already",
		"192.0.2.0/24 K\xf6ln":              `line 1: the name "K\xf6ln" is not UTF-8`,
		"192.0.2.0/24 " + long(MaxName+1):   "line 1: a name of 65 bytes: must have at most 64",
		strings.Repeat("x", 100_000) + " b": "token too long",
	} {
		_, err := Read(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%.40q", text)
	}
	var many strings.Builder
	for i := range MaxPrefixes + 1 {
		fmt.Fprintf(&many, "10.%d.%d.%d/32 x\n", i>>16, i>>8&255, i&255)
	}
	_, err := Read(strings.NewReader(many.String()))
	require.ErrorContains(t, err, "line 100001: more than 100000 prefixes")
}

func long(n int) string { return strings.Repeat("n", n) }

func TestLoad(t *testing.T) {
	name := filepath.Join(t.TempDir(), "groups")
	_, err := Load(name)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(name, []byte("x y"), 0o600))
	_, err = Load(name)
	require.ErrorContains(t, err, name+`: line 1: "x"`)
}

func FuzzRead(f *testing.F) {
	f.Add("192.0.2.0/24 blue # x\n::/0 red")
	f.Fuzz(func(t *testing.T, text string) {
		defer testlimit.Start(t, len(text), 1000)()
		table, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for p, name := range table {
			require.True(t, p.IsValid() && p == p.Masked() && !p.Addr().Is4In6())
			require.NotEmpty(t, name)
			require.True(t, utf8.ValidString(name))
		}
	})
}
