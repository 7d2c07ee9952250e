package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/internal/cli"
	"sluice/server"
)

// TestQlogMatchIsReloaded chooses all connections, and then, by the file, those of some network.
func TestQlogMatchIsReloaded(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "relay.yaml")
	write := func(more string) {
		require.NoError(t, os.WriteFile(file, []byte("dev: true\nqlog: "+dir+"\n"+more), 0o600))
	}
	write("")
	f, flags := parse(t)
	require.NoError(t, cli.ReadFlags(flags, file))
	require.NoError(t, flags.Set(cli.ConfigFlag, file))
	require.NoError(t, f.check())
	var cfg server.Config
	require.NoError(t, f.qlog.open(&cfg))
	has := func() bool { // of a connection whose address is not known, which no network has
		trace := cfg.Transport.Inspection.Trace(t.Context(), false, quic.ConnectionID{})
		if trace == nil {
			return false
		}
		require.NoError(t, trace.AddProducer().Close())
		return true
	}
	require.True(t, has())
	for _, step := range []struct {
		text    string
		changed []string // what needs a restart
		has     bool
	}{
		{"qlog-match: [192.0.2.0/24]\nqlog-size: 300\n", []string{"qlog-size"}, false},
		{"qlog-match: [/live]\n", nil, true}, // its path is not known yet
		{"qlog-match: [192.0.2.0/24, /live]\n", nil, false},
		{"qlog-match: [100%]\n", nil, true},
		{"qlog-match: [192.0.2.0/24]\n", nil, false},
	} {
		write(step.text)
		names, err := newReloadable(&f.qlog).changed(flags)
		require.NoError(t, err)
		require.Equal(t, step.changed, names)
		require.Equal(t, step.has, has())
	}
	write("qlog-match: [192.0.2.0/33]\n")
	_, err := newReloadable(&f.qlog).changed(flags)
	require.ErrorContains(t, err, `--qlog-match: "192.0.2.0/33": must be an address or a network`)
	require.False(t, has())
}

func TestQlogFlags(t *testing.T) {
	requireMistakes(t, map[string]string{
		"--qlog-match=host":   `--qlog-match: "host": must be an address or a network`,
		"--qlog-match=0%":     `--qlog-match: "0%": must be more than 0% and at most 100%`,
		"--qlog-match=1%,2%":  `--qlog-match: "2%": must be the only share`,
		"--qlog-sessions=0":   "--qlog-sessions: 0: must be",
		"--qlog-size=15":      "--qlog-size: 15: must be",
		"--qlog=/dev/null/no": "--qlog: mkdir /dev/null: not a directory",
		"--otlp-url=host":     "--otlp-url: must be a URL such as",
	}, "--dev")
}
