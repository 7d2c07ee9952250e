package rtsp

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/stretchr/testify/require"

	"sluice/fastpath"
	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/relay"
)

// kernelWorld is a server with the fast path on a host of a lab. Its clients are on other hosts.
type kernelWorld struct {
	*Server
	t       *testing.T
	lab     *lab.Lab
	fast    *fastpath.FastPath
	closeIt func() error // closes the fast path
}

func newKernelWorld(t *testing.T, topology lab.Topology, options ...func(*Config)) *kernelWorld {
	t.Helper()
	return newKernelWorldWith(t, topology, fastpath.Settings{}, options...)
}

func newKernelWorldWith(t *testing.T, topology lab.Topology, s fastpath.Settings, options ...func(*Config),
) *kernelWorld {
	t.Helper()
	w := &kernelWorld{t: t, lab: labtest.New(t, topology)}
	log := slog.New(slog.DiscardHandler)
	var err error
	s.Port, s.RTPPort = 4443, 8000
	w.fast, err = fastpath.New(s, log)
	require.NoError(t, err)
	w.closeIt = sync.OnceValue(w.fast.Close)
	t.Cleanup(func() { require.NoError(t, w.closeIt()) })
	cfg := Config{
		Relay: newRelay(t, relay.Config{}), Address: ":8554", RTPAddress: ":8000", FastPath: w.fast, Logger: log,
	}
	for _, o := range options {
		o(&cfg)
	}
	require.NoError(t, w.lab.Relay.Do(func() error {
		for _, d := range w.lab.Relay.Devices {
			i, err := net.InterfaceByName(d.Name)
			require.NoError(t, err)
			require.NoError(t, w.fast.Attach(i.Index))
		}
		w.Server, err = Start(cfg)
		return err
	}))
	w.route = func(bound netip.Addr, to netip.AddrPort) (from netip.Addr, mtu int, err error) {
		err = w.lab.Relay.Do(func() (err error) {
			from, mtu, err = fastpath.Route(bound, to)
			return err
		})
		return from, mtu, err
	}
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// client is an RTSP client on a host.
func (w *kernelWorld) client(h *lab.Host) *gortsplib.Client {
	return &gortsplib.Client{
		Protocol: protocol(gortsplib.ProtocolUDP),
		DialContext: func(_ context.Context, network, address string) (c net.Conn, err error) {
			err = h.Do(func() error { c, err = net.Dial(network, address); return err })
			return c, err
		},
		ListenPacket: func(network, address string) (c net.PacketConn, err error) {
			err = h.Do(func() error { c, err = net.ListenPacket(network, address); return err })
			return c, err
		},
	}
}

func (w *kernelWorld) url(h *lab.Host, v6 bool) *base.URL {
	d := w.lab.Relay.Facing(h)
	ip := d.IPv4.Addr()
	if v6 {
		ip = d.IPv6.Addr()
	}
	u, err := base.ParseURL("rtsp://" + netip.AddrPortFrom(ip, 8554).String() + "/live/cam")
	require.NoError(w.t, err)
	return u
}

func (w *kernelWorld) publish(v6 bool) *sender {
	w.t.Helper()
	h := w.lab.Publisher
	c := &sender{t: w.t, client: w.client(h), desc: broadcast()}
	require.NoError(w.t, c.client.StartRecording(w.url(h, v6).String(), c.desc))
	w.t.Cleanup(c.client.Close)
	return c
}

func (w *kernelWorld) play(h *lab.Host, v6 bool) *receiver {
	w.t.Helper()
	return (&receiver{t: w.t, client: w.client(h)}).play(w.url(h, v6), true)
}

// byKernel returns how many packets the kernel has sent to players, as far as user space knows.
func (w *kernelWorld) byKernel() int { return int(counted(w.t, w.Server, "kernel_packets_total")) }

// frame sends the next frame, with sound, and waits until the server has handled it.
func (w *kernelWorld) frame(c *sender) {
	w.t.Helper()
	c.frames(1)
	c.received(w.Server, 2*int(c.number))
}

// untilKernel sends frames until the kernel sends them to a number of players, as it does with the next ones.
func (w *kernelWorld) untilKernel(c *sender, players int) {
	w.t.Helper()
	w.onceKernel(c, players)
	for range 5 {
		require.Equal(w.t, 2*players, w.frameByKernel(c), "the kernel goes on")
	}
}

// onceKernel sends frames until the kernel sends one to a number of players.
func (w *kernelWorld) onceKernel(c *sender, players int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.frameByKernel(c) == 2*players }, patient, 20*time.Millisecond,
		"the kernel sends to all")
}

// frameByKernel sends a frame, and returns how many packets of it the kernel has sent.
func (w *kernelWorld) frameByKernel(c *sender) int {
	before := w.byKernel()
	w.frame(c)
	return w.byKernel() - before
}

// TestKernel has the kernel send to players, one that joins late and one that leaves among them, and then no kernel.
// Each player gets each packet once.
func TestKernel(t *testing.T) {
	t.Parallel()
	for name, v6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newKernelWorld(t, lab.Topology{Subscribers: 3})
			pub := w.publish(v6)
			a, b := w.play(w.lab.Subscribers[0], v6), w.play(w.lab.Subscribers[1], v6)
			w.untilKernel(pub, 2)
			for pub.number%10 != 4 {
				w.frame(pub)
			}
			first := pub.number - 3
			late := w.play(w.lab.Subscribers[2], v6)
			w.untilKernel(pub, 3)
			late.expects(first, pub.number)
			b.expects(1, pub.number)
			b.client.Close()
			w.untilKernel(pub, 2)
			require.NoError(t, w.closeIt())
			before := w.byKernel()
			pub.frames(20)
			pub.received(w.Server, 2*int(pub.number))
			a.expects(1, pub.number)
			late.expects(first, pub.number)
			require.Equal(t, before, w.byKernel())
			for i, g := range w.cfg.Relay.Guests() {
				require.Equal(t, i > 0, g.Kernel > 0, "of players")
				require.Equal(t, i > 0, g.Process > 0, "of players")
			}
		})
	}
}

// TestKernelBeyondQuota checks that the kernel sends no more to a player whose quota is used up, in streams with groups
// and without, and that this is counted.
func TestKernelBeyondQuota(t *testing.T) {
	t.Parallel()
	for name, groups := range map[string]bool{"groups": true, "no groups": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newKernelWorld(t, lab.Topology{Subscribers: 1}, func(c *Config) {
				c.Relay = newRelay(t, relay.Config{PerAddress: relay.Quota{Download: relay.MinBitRate}})
			})
			pub := w.publish(false)
			s := w.all()[0]
			if !groups {
				s.mu.Lock()
				s.lead = nil
				s.mu.Unlock()
			}
			w.play(w.lab.Subscribers[0], false)
			w.untilKernel(pub, 1)
			for pub.number%10 != 4 {
				w.frame(pub)
			}
			s.mu.Lock()
			for p := range s.players {
				require.True(t, p.guest.Download(relay.MinBitRate*1000)) // hours
			}
			s.mu.Unlock()
			w.frame(pub) // the kernel sends it, as it knows no quotas
			require.NotZero(t, counted(t, w.Server, "dropped_packets_total", dropQuota))
			before := w.byKernel()
			for range 3 {
				w.frame(pub)
			}
			require.Equal(t, before, w.byKernel())
			require.Equal(t, !groups, counted(t, w.Server, "dropped_packets_total", dropQuota) > 2)
		})
	}
}
