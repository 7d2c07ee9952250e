package hub

import (
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/track"
)

// closing is a MediaSubscription that is closed.
type closing struct {
	MediaSubscription
	code moqt.StreamResetCode
}

func (m *closing) Close(code uint64) { m.code = moqt.StreamResetCode(code) }

// A publisher has a stream for each object, and a subscriber reads nothing.
func TestTooManyStreams(t *testing.T) {
	d := &downstream{hub: aloneHub(slog.DiscardHandler), peer: new(Peer), accepted: true}
	m := new(closing)
	d.delivery = delivery{sub: d, streams: newStreams(nil, nil), media: m}
	s := &d.delivery.streams
	next := func() *cursor { return &cursor{delivery: &d.delivery, segment: new(track.Segment)} }
	first := next()
	require.True(t, s.add(first))
	for range maxStreams - 1 {
		require.True(t, s.add(next()))
	}
	require.False(t, s.add(next()))
	d.hub.directory.Tasks.Wait()
	require.True(t, d.over)
	require.Equal(t, moqt.ResetTooFarBehind, m.code)
	s.remove(first)
	require.False(t, s.add(next()), "the subscription gets no more")
}

// Impostors publish one track after the other.
func TestExcludedTracksAreFew(t *testing.T) {
	p, h := new(Peer), aloneHub(slog.DiscardHandler)
	for i := range maxExcluded + 1 {
		h.name = moqt.FullTrackName{Name: strconv.Itoa(i)}
		require.False(t, p.isExcluded(h))
		p.exclude(h)
		require.True(t, p.isExcluded(h))
	}
	require.Len(t, p.excluded, maxExcluded)
}

// A publisher opens streams without an object, one after the other.
func TestNewcomerForgetsStreams(t *testing.T) {
	n := newcomer{known: new(moqt.Location)}
	for range 10 {
		end, needs := n.begin(0)
		require.True(t, needs)
		require.Len(t, n.looks, 1)
		end()
	}
	require.Empty(t, n.looks)
}
