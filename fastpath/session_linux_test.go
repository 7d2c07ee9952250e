package fastpath

import (
	"bytes"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/internal/logs"
	"sluice/lab"
	"sluice/moqt"
)

// TestUnknownLayout connects a publisher and two subscribers. If the kernel does not know a peer's layout of headers,
// it forwards nothing from that publisher or to that subscriber.
func TestUnknownLayout(t *testing.T) {
	const unknown = moqt.DataLayout(200)
	for name, tt := range map[string]struct {
		publisher, subscriber moqt.DataLayout
		forwards              bool
		subscribers           uint32
		lines                 int
	}{
		"known":      {knownLayout, knownLayout, true, 2, 0},
		"publisher":  {unknown, knownLayout, false, 0, 1},
		"subscriber": {knownLayout, unknown, true, 1, 1},
		"unset":      {knownLayout, 0, true, 1, 1},
		"draft-16":   {moqt.DataLayout2, moqt.DataLayout2, false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, lab.Topology{}, false)
			var log bytes.Buffer
			r.fast.log = logs.NewSparse(slog.New(slog.NewTextHandler(&log, nil)))
			connect := func(l moqt.DataLayout) claim.ForwarderConn {
				c, _ := r.fast.Connect(func(*claim.StreamState) {})
				c.SetSession(claim.Session{Layout: l})
				return c
			}
			publisher := connect(tt.publisher)
			late, _ := r.fast.Connect(func(*claim.StreamState) {}) // its session is not known yet
			subscribers := []Subscriber{{Conn: connect(tt.subscriber)}, {Conn: connect(knownLayout)}, {Conn: late}}
			track := r.fast.NewTrack()
			defer track.Close()
			track.Forward(publisher, 7, 128, subscribers)
			require.Equal(t, tt.forwards, r.fast.Forwards())
			var applied bpf.Track
			if tt.forwards {
				applied, _ = r.kernel.tracks.get(track.index)
			}
			require.Equal(t, tt.subscribers, applied.Count)
			state, _ := subscribers[0].Conn.OpenStream(&claim.PublisherStream{Conn: publisher, StreamID: 3})
			require.Equal(t, tt.lines == 0, state != nil, "a stream that is shared with the kernel")
			require.Equal(t, tt.lines, bytes.Count(log.Bytes(), []byte("does not know the layout")), log.String())
		})
	}
}

// TestUnknownLocalAddress connects to a peer before it is known from which address packets leave. The kernel sends
// nothing to it until then, and nothing on an older path.
func TestUnknownLocalAddress(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, true)
	var log bytes.Buffer
	r.fast.log = logs.NewSparse(slog.New(slog.NewTextHandler(&log, nil)))
	c := r.connect()
	remote := netip.AddrPortFrom(r.subscribers[0].address(t), 9)
	known := func(local netip.Addr) bool {
		c.SetPath(claim.Path{Local: netip.AddrPortFrom(local, relayPort), Remote: remote})
		_, err := r.kernel.paths.get(c.index)
		return err == nil
	}
	near := r.address(r.lab.Relay.Facing(r.lab.Subscribers[0]))
	require.False(t, known(netip.IPv6Unspecified()))
	require.Contains(t, log.String(), "the local address of packets to")
	require.True(t, known(near))
	require.False(t, known(netip.IPv6Unspecified()))
}
