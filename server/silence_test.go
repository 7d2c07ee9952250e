package server

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/transport"
	"sluice/transport/transporttest"
)

// withoutIdleTimeout returns the configuration of a server whose sessions do not time out while a test runs.
func withoutIdleTimeout() (cfg Config) {
	cfg.Transport.IdleTimeout, cfg.Upstream.Transport.IdleTimeout = time.Hour, time.Hour
	return cfg
}

// countedProbes counts the probes of a connection. If it is quiet, the peer sends nothing but answers to them.
type countedProbes struct {
	transport.Conn
	quiet  bool
	last   time.Time
	probes atomic.Int64
}

func (c *countedProbes) LastReceived() time.Time {
	if c.quiet {
		return c.last
	}
	return c.Conn.LastReceived()
}

func (c *countedProbes) Probe(ctx context.Context) error {
	c.probes.Add(1)
	err := c.Conn.Probe(ctx)
	if err == nil {
		c.last = time.Now()
	}
	return err
}

// TestSilence has an upstream relay that sends something all the time, or only answers, and is gone in the end: that is
// noticed within a second. Nothing is sent to one that sends anyway.
func TestSilence(t *testing.T) {
	for name, quiet := range map[string]bool{"sends": false, "only answers": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := transporttest.Pipe(transporttest.PipeConfig{})
				c := &countedProbes{Conn: here, quiet: quiet, last: time.Now()}
				go watchSilence(c, func() bool { return false })
				time.Sleep(10 * time.Second)
				synctest.Wait()
				require.NoError(t, here.Context().Err())
				require.Equal(t, quiet, c.probes.Load() > 0)
				there.Vanish()
				gone := time.Now()
				<-here.Context().Done()
				require.ErrorContains(t, context.Cause(here.Context()), silent)
				require.Less(t, time.Since(gone), time.Second)
			})
		})
	}
}

// held is a connection whose packets the kernel has, until it gives them to the socket. The first answer comes later.
type held struct {
	transport.Conn
	since, until time.Time
	answers      time.Duration // after until
}

func (h *held) LastReceived() time.Time {
	if now := time.Now(); now.Before(h.since) || now.After(h.until) {
		return now
	}
	return h.since
}

func (h *held) Probe(ctx context.Context) error {
	if wait := time.Until(h.until) + h.answers; !time.Now().Before(h.since) && wait >= 0 {
		select {
		case <-time.After(wait + 1):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.Conn.Probe(ctx)
}

// TestSilenceOfTheKernel has a program run be late for so long that the session with an upstream relay looks silent. If
// the session was given up then, the relay would not know what the run has sent. If the kernel has nothing, the session
// is given up.
func TestSilenceOfTheKernel(t *testing.T) {
	for name, tt := range map[string]struct{ late, silent, answers time.Duration }{
		"the kernel has packets":         {3 * time.Second, 3 * time.Second, 0},
		"it gives them away just before": {949 * time.Millisecond, 960 * time.Millisecond, 0},
		"they need another look":         {2 * time.Second, 2100 * time.Millisecond, 0},
		"an answer needs longer":         {1200 * time.Millisecond, 1240 * time.Millisecond, 100 * time.Millisecond},
		"it has nothing":                 {0, 10 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, _ := transporttest.Pipe(transporttest.PipeConfig{})
				now := time.Now()
				go watchSilence(&held{here, now, now.Add(tt.silent), tt.answers}, func() bool {
					time.Sleep(time.Until(now.Add(tt.late)))
					return true
				})
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if tt.late > 0 {
					require.NoError(t, here.Context().Err())
					require.NoError(t, here.CloseWithError(0, ""))
				}
				<-here.Context().Done()
				if tt.late == 0 {
					require.ErrorContains(t, context.Cause(here.Context()), silent)
				}
			})
		})
	}
}
