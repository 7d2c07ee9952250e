package rtsp

import (
	"crypto/tls"
	"net/netip"
	"testing"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/stretchr/testify/require"

	"sluice/lab"
)

// urlAt is where a host finds a broadcast at an RTSP port.
func (w *kernelWorld) urlAt(h *lab.Host, scheme string, port uint16, path string) *base.URL {
	at := netip.AddrPortFrom(w.lab.Relay.Facing(h).IPv4.Addr(), port)
	u, err := base.ParseURL(scheme + "://" + at.String() + path)
	require.NoError(w.t, err)
	return u
}

func (w *kernelWorld) secureClient(h *lab.Host) *gortsplib.Client {
	c := w.client(h)
	c.Protocol, c.TLSConfig = nil, &tls.Config{InsecureSkipVerify: true}
	return c
}

// TestKernelBesideSRTP has players with and without SRTP play streams published without and with it, until the kernel
// sends where both sides are plain. It sends nothing else: it knows one port for RTP, and SRTP has another one, and
// TestKernelIsOfferedNoSRTP shows that user space does not offer such sessions.
func TestKernelBesideSRTP(t *testing.T) {
	t.Parallel()
	srtp := func(c *Config) { c.SRTPAddress = ":8004" }
	w := newKernelWorld(t, lab.Topology{Subscribers: 2}, withTLS(t, ":8322"), srtp)
	from, a, b := w.lab.Publisher, w.lab.Subscribers[0], w.lab.Subscribers[1]
	encrypted := &sender{t: t, client: w.secureClient(from), desc: broadcast()}
	u := w.urlAt(from, "rtsps", 8322, "/live/srtp")
	require.NoError(t, encrypted.client.StartRecording(u.String(), encrypted.desc))
	t.Cleanup(encrypted.client.Close)
	decrypted := (&receiver{t: w.t, client: w.client(a)}).play(w.urlAt(a, "rtsp", 8554, "/live/srtp"), true)
	encrypted.frames(1)
	decrypted.expects(1, 1)

	pub := w.publish(false)
	secure := (&receiver{t: w.t, client: w.secureClient(b)}).play(w.urlAt(b, "rtsps", 8322, "/live/cam"), true)
	pub.frames(1)
	secure.expects(1, 1)
	plain := w.play(a, false) // last: the others could be the kernel's before it
	eventually(t, "the kernel sends", func() bool {
		encrypted.frames(1)
		pub.frames(1)
		return w.byKernel() > 0
	})
	encrypted.frames(10)
	pub.frames(10)
	decrypted.expects(1, encrypted.number)
	secure.expects(1, pub.number)
	plain.expects(1, pub.number)
	served := 0
	for _, g := range w.cfg.Relay.Guests() {
		if g.Kernel > 0 {
			served++
			require.Equal(t, "udp", g.Carrier)
			require.Equal(t, "live-cam", g.Namespace)
		}
	}
	require.Equal(t, 1, served)
}
