package rtt

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
	"sluice/internal/lab/labtest"
)

// quinnConnections are so many that none of them spins in one of 100 000 runs only: each end of quinn leaves the bit random on
// one of eight.
const quinnConnections = 8

// quinn returns the program interop/quinn-spin, which interop/run builds.
func quinn(t *testing.T) string {
	dir := os.Getenv("SLUICE_INTEROP")
	if dir == "" {
		t.Skip("needs SLUICE_INTEROP, the directory of programs that interop/run builds")
	}
	return filepath.Join(dir, "quinn-spin")
}

// quinnConnection has a client talk to a server for a while and returns what is measured, if anything, at the client.
func quinnConnection(t *testing.T, l *lab.Lab, program string, server netip.AddrPort, client string) (handshakes, spins []Sample) {
	end := measuring(t, l.Publisher, Config{Interfaces: []string{"eth0"}, QUIC: true, RateLimit: -1, IncludeLocal: true})
	out, err := combined(l.Publisher, exec.Command(program, "client", server.String(), client, "1.5"))
	require.NoError(t, err, out)
	for _, s := range end().samples {
		if s.Method == MethodSpin {
			spins = append(spins, s)
		} else {
			handshakes = append(handshakes, s)
		}
	}
	return handshakes, spins
}

// combined runs a command inside a host and returns what it wrote.
func combined(h *lab.Host, cmd *exec.Cmd) (out string, err error) {
	err = h.Do(func() error {
		b, err := cmd.CombinedOutput()
		out = string(b)
		return err
	})
	return out, err
}

func TestSpinBitOfQuinn(t *testing.T) {
	const delay = 10 * time.Millisecond
	program := quinn(t)
	l := labtest.New(t, lab.Topology{Uplink: lab.Symmetric(lab.Conditions{Delay: delay})})
	for i, test := range []struct {
		client, server string
		spins          bool
	}{{"on", "on", true}, {"off", "on", false}, {"on", "off", false}, {"off", "off", false}} {
		t.Run("client "+test.client+", server "+test.server, func(t *testing.T) {
			address := netip.AddrPortFrom(l.Relay.Devices[0].IPv4.Addr(), uint16(4433+i))
			server := exec.Command(program, "server", address.String(), test.server)
			ready, err := server.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, l.Relay.Start(server))
			defer func() {
				require.NoError(t, server.Process.Kill())
				_ = server.Wait()
			}()
			_, err = ready.Read(make([]byte, 20))
			require.NoError(t, err)
			spun := 0
			for range quinnConnections {
				handshakes, spins := quinnConnection(t, l, program, address, test.client)
				require.NotEmpty(t, handshakes)
				for _, s := range handshakes {
					require.True(t, s.Source != address || s.RTT >= 2*delay, "%v", s)
				}
				if len(spins) == 0 {
					continue
				}
				spun++
				checkSpins(t, spins, delay)
				if test.spins {
					break
				}
			}
			if test.spins {
				require.NotZero(t, spun)
			} else {
				require.Zero(t, spun, "what is random must not be taken for spinning")
			}
		})
	}
}

// checkSpins compares with the path: an edge waits for the next packet, which each end sends every millisecond.
func checkSpins(t *testing.T, spins []Sample, delay time.Duration) {
	var rtts []time.Duration
	for _, s := range spins {
		require.GreaterOrEqual(t, s.RTT, 2*delay)
		require.Equal(t, s.RTT, s.QUIC.Near+s.QUIC.Far)
		rtts = append(rtts, s.RTT)
	}
	t.Logf("%d RTTs, %v in the median, over a path of %v", len(spins), median(rtts), 2*delay)
	require.Greater(t, len(spins), 40, "of 75 round trips in each direction")
	require.Less(t, median(rtts), 2*delay+4*time.Millisecond)
}
