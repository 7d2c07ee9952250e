package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/server/cluster/clustertest"
)

// offers accepts the tracks that a relay offers (PUBLISH), and passes their names and streams on.
type offers struct {
	session.Unsupported
	names   chan string
	streams streams
}

// HandlePublish implements session.Handler.
func (o *offers) HandlePublish(sub *session.Subscription) {
	if sub.Accept(moqt.Parameters{}, o.streams) != nil {
		return
	}
	o.names <- sub.Track().Name
	<-sub.Context().Done()
}

// await returns the name of the next track that is offered.
func (o *offers) await(t *testing.T) string {
	t.Helper()
	select {
	case name := <-o.names:
		return name
	case <-time.After(time.Minute):
		require.Fail(t, "no track is offered")
		return ""
	}
}

// subscribeTracks asks a server for the tracks of the tests.
func subscribeTracks(t *testing.T, s *Server) *offers {
	t.Helper()
	o := &offers{names: make(chan string, 100), streams: make(streams, 100)}
	_, err := join(t, s, o).SubscribeTracks(t.Context(),
		moqt.SubscribeTracks{Prefix: moqt.Namespace{"live"}}, func(moqt.FullTrackName) {})
	require.NoError(t, err)
	return o
}

// TestTracksOfOtherNodes offers peers the track of another node when somebody here has subscribed to it: to a peer that
// asked for such tracks before, and to one that asks later.
func TestTracksOfOtherNodes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var bus clustertest.Bus
		a, b := startNode(t, &bus, "", "a"), startNode(t, &bus, "", "b")
		send := publish(t, a.Server, "video")
		b.knowsRoute(t, 1)
		early := subscribeTracks(t, b.Server)
		got := receive(t, b.Server, "video")
		late := subscribeTracks(t, b.Server)
		for _, o := range []*offers{early, late} {
			require.Equal(t, "video", o.await(t))
		}
		send(0, []byte("group 0"))
		for _, c := range []streams{got, early.streams, late.streams} {
			require.Contains(t, string(c.await(t)), "group 0")
		}
	})
}
