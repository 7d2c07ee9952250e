package fastpath

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/internal/lab"
	"sluice/internal/logs"
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
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, lab.Topology{}, false)
			var log bytes.Buffer
			r.fast.log = logs.NewSparse(slog.New(slog.NewTextHandler(&log, nil)))
			connect := func(l moqt.DataLayout) claim.ForwarderConn {
				c := r.fast.Connect(r.fast.NewConn(), func(*claim.StreamState) {})
				c.SetSession(claim.Session{Layout: l})
				return c
			}
			publisher := connect(tt.publisher)
			late := r.fast.Connect(r.fast.NewConn(), func(*claim.StreamState) {}) // its session is not known yet
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
