package load

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/lab/netns"
)

// A bystander pings this machine in two periods, and counts in each.
func TestPing(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip("needs root, for a raw socket")
	}
	b := startGenerator(t, GeneratorConfig{Ping: "::1"})
	require.True(t, b.event(t).Ready)
	for range 2 {
		done := pingsSome(t, func(wait time.Duration) *Pinged {
			b.tell(t, Go)
			time.Sleep(wait)
			b.tell(t, Stop)
			return b.event(t).Pinged
		})
		require.NotEmpty(t, done.Delays)
		require.True(t, slices.IsSorted(done.Delays))
		require.Positive(t, done.Delays[0])
		require.Zero(t, done.Lost)
	}
	b.tell(t, Go)
	b.tell(t, "halt")
	require.EqualError(t, <-b.ended, `command: "halt": must be "stop"`)
	require.ErrorContains(t, <-startGenerator(t, GeneratorConfig{Ping: "127.0.0.1"}).ended, "127.0.0.1")
}

// pingsSome has a bystander ping for longer and longer, until there is a ping: on a busy machine there may be none.
func pingsSome(t *testing.T, ping func(time.Duration) *Pinged) *Pinged {
	t.Helper()
	for wait := 2 * pingInterval; ; wait *= 2 {
		done := ping(wait)
		require.NotNil(t, done)
		if len(done.Delays)+done.Lost > 0 {
			return done
		}
		require.Less(t, wait, time.Minute, "no ping")
	}
}

// A host that does not answer loses pings.
func TestPingIsLost(t *testing.T) {
	ns, err := netns.New()
	if errors.Is(err, unix.EPERM) && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip("needs root, for a network namespace")
	}
	require.NoError(t, err)
	t.Cleanup(ns.Close)
	require.NoError(t, ns.Up("lo"))
	require.NoError(t, ns.Sysctl(map[string]string{"ipv6/icmp/echo_ignore_all": "1"}))
	var p *pinger
	require.NoError(t, ns.Do(func() (err error) {
		p, err = newPinger("::1", time.Millisecond)
		return err
	}))
	g := &generator{commands: make(chan string, 1)}
	done := pingsSome(t, func(wait time.Duration) *Pinged {
		pinged := make(chan *Pinged)
		go func() {
			done, err := g.pings(t.Context(), p)
			assert.NoError(t, err)
			pinged <- done
		}()
		time.Sleep(wait)
		g.commands <- Stop
		return <-pinged
	})
	require.Empty(t, done.Delays)
	require.Positive(t, done.Lost)
}
