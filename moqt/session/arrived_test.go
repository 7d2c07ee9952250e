package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport/transporttest"
)

// TestArrivedBeforeEnd: streams that have arrived before the peer closes the session are delivered first.
func TestArrivedBeforeEnd(t *testing.T) {
	play(t, setting{}, func(p *script) {
		c := newCollector()
		p.subscribed(testTrack, 1, c)
		p.s.conn.(*transporttest.Conn).Pause() // everything waits in the transport when the session ends
		const streams = 10
		for i := range uint64(streams) {
			h := moqt.SubgroupHeader{TrackAlias: 1, GroupID: i}
			b := moqt.AppendSubgroupHeader(nil, p.s.Version(), h)
			require.NoError(t, p.uni(append(b, "object"...)).Close())
		}
		o := moqt.ObjectDatagram{TrackAlias: 1, Payload: []byte("datagram")}
		b, err := moqt.AppendDatagramHeader(nil, p.s.Version(), &o)
		require.NoError(t, err)
		require.NoError(t, p.conn.SendDatagram(append(b, o.Payload...)))
		require.NoError(t, p.conn.CloseWithError(uint64(moqt.SessionNoError), ""))
		require.NoError(t, <-p.run)
		require.Len(t, c.subgroups, streams)
		require.Len(t, c.datagrams, 1)
		for range streams {
			got := <-c.subgroups
			require.NoError(t, got.err)
			require.Equal(t, "object", string(got.body))
		}
	})
}
