package relay

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// TestOverview describes a track with two subscribers, and one that a viewer waits for.
func TestOverview(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		require.Empty(t, b.relay.Overview())
		pub, one, two := b.connect(), b.connect(), b.connect()
		src := pub.serve(&source{})
		pub.announce("live")
		one.mustSubscribe(moqt.Parameters{})
		two.mustSubscribe(moqt.Parameters{})
		before := b.relay.Overview()
		require.Equal(t, []TrackStatus{{ID: 1, Name: "live-room--video", Publishers: 1, Subscribers: 2}}, before.Tracks)
		src.group(0, 3)
		o := b.relay.Overview()
		require.Equal(t, [2]int{1, 2}, [2]int{o.Publishers, o.Viewers})
		require.EqualValues(t, 3*len("object 0")+3*2+0, o.Tracks[0].Bytes)
		require.Equal(t, o.Tracks[0].Bytes, o.Received)

		list, all, ok := b.relay.Subscribers(1, 10)
		require.True(t, ok)
		require.Equal(t, 2, all)
		ids := []uint64{list[0].Session.ID, list[1].Session.ID}
		require.True(t, slices.IsSorted(ids), "the oldest first: %v", ids)
		require.True(t, list[0].Forward)
		require.False(t, list[0].OnFastPath)
		require.NotEmpty(t, list[0].Session.Remote)

		list, all, _ = b.relay.Subscribers(1, 1)
		require.Len(t, list, 1)
		require.Equal(t, 2, all)
		_, _, ok = b.relay.Subscribers(2, 1)
		require.False(t, ok)
	})
}
