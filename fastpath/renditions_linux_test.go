package fastpath_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay"
	"sluice/transport"
)

// scale is how much smaller the frames of the second rendition are.
const scale = 8

// TestRenditions has the relay choose between two renditions for a subscriber behind a bottleneck of 60 % of the better
// one: it gets each group once and whole, from one of them, and the kernel forwards either.
func TestRenditions(t *testing.T) {
	delay := lab.Symmetric(lab.Conditions{Delay: 5 * time.Millisecond})
	w := newWorld(t, worldConfig{
		topology: lab.Topology{Subscribers: 1, Downlink: delay}, budget: relay.FastPathBudget(0),
	})

	p := w.publisher("moqt")
	s := w.connect(w.lab.Subscribers[0], "moqt", nil, transport.Limits{})
	high, low := newViewer(), newViewer()
	for i, v := range []*viewer{high, low} {
		sub, err := s.Subscribe(t.Context(), moqt.Subscribe{Track: trackName(i), Parameters: moqt.Parameters{
			Forward: new(i == 0), Filter: &moqt.Filter{Type: moqt.FilterRelativeStart},
			Rendition: &moqt.Rendition{Set: 7, Bitrate: uint64(videoRate) / []uint64{1, scale}[i]},
		}}, v)
		require.NoError(t, err)
		_, err = sub.Wait(t.Context())
		require.NoError(t, err)
	}
	pubs := map[string]*broadcast{}
	for range 2 {
		pub := <-p.subscribed
		go agree(pub)
		pubs[pub.Track().Name] = w.broadcast(pub)
	}
	next := uint64(0)
	groups := func(n int) {
		for range n {
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				pubs["video1"].send(present(next, 0), 0, gop/framesPerGOP, sizes(scale)...)
			}()
			pubs["video0"].send(present(next, 0), 0, gop/framesPerGOP, sizes(1)...)
			<-sent
			next++
		}
	}
	groups(4)
	link := w.lab.Subscribers[0].Devices[0].Link
	require.NoError(t, link.Set(lab.ToHost, lab.Conditions{
		Rate: videoRate * 6 / 10, Delay: 5 * time.Millisecond, Queue: time.Second,
	}))
	for n := 0; low.largest() == 0; n++ {
		require.Less(t, n, 30, "the relay does not change")
		groups(1)
	}
	require.NoError(t, link.Set(lab.ToHost, delay.ToHost))
	require.Eventually(t, func() bool { return low.largest()+1 == next }, time.Minute, 10*time.Millisecond)
	before := w.loop.Stats().Counters
	groups(4)
	require.Eventually(t, func() bool { return low.largest()+1 == next }, time.Minute, 10*time.Millisecond)
	after := w.loop.Stats().Counters
	require.Greater(t, after.ForwarderPackets, before.ForwarderPackets, "the kernel forwards the other rendition")
	w.report()
	requireOnce(t, next, high, pubs["video0"], low, pubs["video1"])
}

// agree accepts the updates of a subscription: with them the relay pauses renditions that nobody gets.
func agree(pub *session.Publication) {
	for {
		select {
		case u := <-pub.Updates():
			_ = u.OK(moqt.Parameters{}) // fails only if the subscription is over
		case <-pub.Context().Done():
			return
		}
	}
}

// sizes returns the sizes of the frames of a group.
func sizes(scale int) (list []int) {
	for o := range uint64(framesPerGOP) {
		list = append(list, frameSize(o)/scale)
	}
	return list
}

// largest returns the largest group that has come.
func (v *viewer) largest() (group uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for at := range v.objects {
		group = max(group, at.Group)
	}
	return group
}

// requireOnce checks that each group but the first has come from one of two tracks, whole, and from the second one from
// some group on.
func requireOnce(t *testing.T, groups uint64, high *viewer, best *broadcast, low *viewer, least *broadcast) {
	t.Helper()
	high.mu.Lock()
	defer high.mu.Unlock()
	low.mu.Lock()
	defer low.mu.Unlock()
	require.Empty(t, high.errs)
	require.Empty(t, low.errs)
	changed := false
	for group := uint64(1); group < groups; group++ {
		at := moqt.Location{Group: group}
		_, isLow := low.objects[at]
		changed = changed || isLow
		require.Equal(t, changed, isLow, "group %d", group)
		got, other, sent := high, low, best
		if isLow {
			got, other, sent = low, high, least
		}
		for at.Object = range uint64(framesPerGOP) {
			require.True(t, bytes.Equal(sent.objects[at], got.objects[at]), "object %v", at)
			require.NotContains(t, other.objects, at)
		}
	}
	require.True(t, changed)
}
