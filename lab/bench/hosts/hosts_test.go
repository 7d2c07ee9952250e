package hosts

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	hosts, err := Parse("sub=c,pub=me@a,relay=b.example")
	require.NoError(t, err)
	require.Equal(t, Hosts{"pub": "me@a", "relay": "b.example", "sub": "c"}, hosts)
	for text, want := range map[string]string{
		"":                             `--hosts: "": must be pub=HOST,relay=HOST,sub=HOST`,
		"pub=a,relay=b":                `--hosts: "pub=a,relay=b": must be`,
		"pub=a,relay=b,sub=c,sub=d":    "must be pub=HOST,relay=HOST,sub=HOST",
		"pub=a,relay=b,viewer=c":       "must be pub=HOST,relay=HOST,sub=HOST",
		"pub=a,relay=,sub=c":           `--hosts: "relay=": must be a host, as ssh knows it`,
		"pub=a,relay=-oProxy=x,sub=c":  "must be a host, as ssh knows it",
		"pub=a,relay=b reboot,sub=c":   "must be a host, as ssh knows it",
		"pub=a,relay=b,sub=c,relay2=d": "must be pub=HOST,relay=HOST,sub=HOST",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestParseAddresses(t *testing.T) {
	up, down, err := ParseAddresses("192.0.2.1")
	require.NoError(t, err)
	require.Equal(t, [2]string{"192.0.2.1", "192.0.2.1"}, [2]string{up, down})
	up, down, err = ParseAddresses("192.0.2.1,2001:db8::1")
	require.NoError(t, err)
	require.Equal(t, [2]string{"192.0.2.1", "2001:db8::1"}, [2]string{up, down})
	for _, text := range []string{"", "relay", "192.0.2.1,", "192.0.2.1,192.0.2.2,192.0.2.3", "fe80::1%eth0"} {
		_, _, err := ParseAddresses(text)
		require.ErrorContains(t, err, "must be an IP address", text)
	}
}

// A shell reads the words back.
func TestQuote(t *testing.T) {
	words := []string{"a", "", "it's", `{"x": "$HOME"}`, "a;b|c&d", "`id`", "two\nlines"}
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+quote(words)).Output()
	require.NoError(t, err)
	var read []string
	for part := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		read = append(read, string(part))
	}
	require.Equal(t, words, read)
}
