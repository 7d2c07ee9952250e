package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"sluice/congestion"
	"sluice/server/handover"
	"sluice/transport"
)

// TestProcessorsAreAdapted leaves the number of processors alone if somebody has chosen it.
func TestProcessorsAreAdapted(t *testing.T) {
	for chosen, want := range map[string]bool{"": true, "4": false} {
		t.Setenv("GOMAXPROCS", chosen)
		f, _ := parse(t)
		cfg, err := f.config(os.Getenv)
		require.NoError(t, err)
		require.Equal(t, want, cfg.AdaptRuntime)
	}
}

// TestHelpNamesControllers reads the help text of --congestion, which describes each controller.
func TestHelpNamesControllers(t *testing.T) {
	_, flags := parse(t)
	for name := range congestion.Controllers {
		require.Contains(t, flags.Lookup("congestion").Usage, name)
	}
}

// TestNodesProve expects a relay to use the certificates of its cluster for its sessions with other nodes.
func TestNodesProve(t *testing.T) {
	for args, want := range map[string]*transport.MutualTLS{
		"--cluster": nil,
		"--cluster --cluster-ca=ca --cluster-cert=cert --cluster-key=key": {
			CAFile: "ca", CertFile: "cert", KeyFile: "key",
		},
	} {
		f, _ := parse(t, strings.Fields(args)...)
		cfg, err := f.config(os.Getenv)
		require.NoError(t, err)
		require.Equal(t, want, cfg.Transport.Mutual)
	}
}

// TestNodesDial expects a node of a cluster to attach to all devices: it dials other nodes.
func TestNodesDial(t *testing.T) {
	for _, args := range [][]string{{}, {"--cluster"}, {"--cluster-url", "nats://127.0.0.1"}} {
		f, _ := parse(t, args...)
		cfg, err := f.config(os.Getenv)
		require.NoError(t, err)
		require.Equal(t, len(args) > 0, cfg.FastPath.Dials, args)
	}
}

// TestExplainListen expects advice about the port only where the port is the reason.
func TestExplainListen(t *testing.T) {
	bind := func(errno syscall.Errno) error {
		return fmt.Errorf("listen on :443: %w", &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", errno)})
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{bind(syscall.EADDRINUSE), ": is another relay running? choose another port"},
		{bind(syscall.EADDRNOTAVAIL), ": must be an address of this machine"},
		{bind(syscall.EACCES), ": ports below 1024 need CAP_NET_BIND_SERVICE: see sluice-relay.service"},
		{&net.DNSError{Err: "no such host", Name: "relay.example"}, ""},
	} {
		require.EqualError(t, explainListen(c.err), "--listen: "+c.err.Error()+c.want)
	}
	other := &os.PathError{Op: "open", Path: "/etc/ssl/relay.key", Err: syscall.EACCES}
	require.Equal(t, other, explainListen(other))
}

// TestControlPathsAreBounded opens the socket with the longest name beside the longest --control.
func TestControlPathsAreBounded(t *testing.T) {
	dir := t.TempDir()
	longest := filepath.Join(dir, strings.Repeat("x", maxControl-len(dir)-1))
	for path, want := range map[string]string{
		longest:       "",
		longest + "x": fmt.Sprintf(`--control: "%sx": must be at most %d bytes long`, longest, maxControl),
	} {
		f, _ := parse(t, "--dev", "--control", path)
		l, err := handover.ListenPrivate("unix", elderSocket(path, 4194304))
		if want != "" {
			require.ErrorContains(t, f.check(), want)
			require.Error(t, err)
			continue
		}
		require.NoError(t, f.check())
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

// parse returns the settings of a command line, and its flags.
func parse(t *testing.T, args ...string) (*relayFlags, *pflag.FlagSet) {
	t.Helper()
	f, cmd := new(relayFlags), new(cobra.Command)
	f.register(cmd)
	require.NoError(t, cmd.ParseFlags(args))
	return f, cmd.Flags()
}

// requireMistakes expects the mistakes of command lines to be named; "" is none. All have some more flags.
func requireMistakes(t *testing.T, mistakes map[string]string, more ...string) {
	for args, want := range mistakes {
		t.Run(args, func(t *testing.T) {
			f, _ := parse(t, append(strings.Fields(args), more...)...)
			err := f.check()
			if err == nil && want != "" {
				_, err = f.config(os.Getenv)
			}
			if want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, want)
			}
		})
	}
}
