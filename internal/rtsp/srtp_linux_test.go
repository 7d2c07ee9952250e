package rtsp

import (
	"crypto/tls"
	"net/netip"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
)

// secureURL is where a host finds a broadcast by rtsps://.
func (w *kernelWorld) secureURL(h *lab.Host) *base.URL {
	at := netip.AddrPortFrom(w.lab.Relay.Facing(h).IPv4.Addr(), 8322)
	u, err := base.ParseURL("rtsps://" + at.String() + "/live/cam")
	require.NoError(w.t, err)
	return u
}

func (w *kernelWorld) secureClient(h *lab.Host) *gortsplib.Client {
	c := w.client(h)
	c.Protocol, c.TLSConfig = nil, &tls.Config{InsecureSkipVerify: true}
	return c
}

// TestKernelLeavesSRTP has players with and without SRTP play what is published without, and with it. The kernel sends
// only what is plain on both sides.
func TestKernelLeavesSRTP(t *testing.T) {
	t.Parallel()
	srtp := func(c *Config) { c.SRTPAddress = ":8004" }
	w := newKernelWorld(t, lab.Topology{Subscribers: 2}, withTLS(t, ":8322"), srtp)
	pub := w.publish(false)
	secure := w.playSecure(w.lab.Subscribers[1]) // first: it could be the kernel's before the other one
	w.frame(pub)
	secure.expects(1, 1)
	plain := w.play(w.lab.Subscribers[0], false)
	w.untilKernel(pub, 1)
	secure.expects(1, pub.number)
	plain.expects(1, pub.number)
	for _, g := range w.cfg.Relay.Guests() {
		require.Equal(t, g.Carrier == "udp" && !g.Publishes, g.Kernel > 0, "%+v", g)
	}
	pub.client.Close()
	eventually(t, "the publisher leaves", func() bool { return counted(t, w.Server, "publishers") == 0 })

	again := &sender{t: t, client: w.secureClient(w.lab.Publisher), desc: broadcast()}
	require.NoError(t, again.client.StartRecording(w.secureURL(w.lab.Publisher).String(), again.desc))
	t.Cleanup(again.client.Close)
	plain = w.play(w.lab.Subscribers[0], false)
	before := w.byKernel()
	for begin := time.Now(); time.Since(begin) < 3*handOverAfter; { // the kernel would have begun
		again.frames(1)
		plain.expects(1, again.number)
	}
	require.Equal(t, before, w.byKernel())
}

// playSecure plays by SRTP.
func (w *kernelWorld) playSecure(h *lab.Host) *receiver {
	w.t.Helper()
	u := w.secureURL(h)
	c := &receiver{t: w.t, client: w.secureClient(h), packets: make(map[description.MediaType][]*rtp.Packet)}
	c.client.Scheme, c.client.Host = u.Scheme, u.Host
	require.NoError(w.t, c.client.Start())
	w.t.Cleanup(c.client.Close)
	desc, _, err := c.client.Describe(u)
	require.NoError(w.t, err)
	require.NoError(w.t, c.client.SetupAll(desc.BaseURL, desc.Medias))
	c.client.OnPacketRTPAny(func(m *description.Media, _ format.Format, p *rtp.Packet) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.packets[m.Type] = append(c.packets[m.Type], p)
	})
	_, err = c.client.Play(nil)
	require.NoError(w.t, err)
	return c
}
