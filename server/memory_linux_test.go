package server

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// residentFile returns the memory of the process that is from files, kB.
func residentFile(t *testing.T) string {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "RssFile:")
	require.True(t, found)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// TestDropProgram takes the program out of memory while it runs.
func TestDropProgram(t *testing.T) {
	before := residentFile(t)
	dropProgram()
	after := residentFile(t)
	require.True(t, len(after) < len(before) || len(after) == len(before) && after < before, "%s, %s", before, after)
}

func TestParseMapping(t *testing.T) {
	for line, want := range map[string]string{
		"00400000-00dbb000 r-xp 00000000 fe:00 1839 /usr/bin/a program": "r-xp",
		"00400000-00dbb000 rw-p 00000000 fe:00 1839 /usr/bin/a program": "rw-p",
		"00400000-00dbb000 r-xp 00000000 fe:00 1839 /lib/another":       "",
		"00400000-00dbb000 r-xp 00000000 00:00 0":                       "",
		"no mapping /usr/bin/a program":                                 "",
		"":                                                              "",
	} {
		start, end, mode := parseMapping(line, "/usr/bin/a program")
		require.Equal(t, want, mode, line)
		if want != "" {
			require.EqualValues(t, 0x400000, start)
			require.EqualValues(t, 0xdbb000, end)
		}
	}
}
