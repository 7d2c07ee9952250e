package relay

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay/internal/names"
)

// open connects a bench to an upstream relay that may have all namespaces, and that is told of some.
func (b *bench) open(to *bench, announce ...moqt.Namespace) (*UpstreamRelay, *pipedUpstream) {
	u, err := b.relay.neighbors.NewUpstreamRelay(UpstreamRelayConfig{
		URL: "moqt://relay", Namespaces: []moqt.Namespace{{}}, Announce: announce,
	})
	require.NoError(b.t, err)
	b.relay.neighbors.SetRoutes(RouteTable{{Upstreams: []*UpstreamRelay{u}}})
	return u, b.dial(u, to)
}

// watches counts the requests for namespaces and tracks that the peers of a bench have open.
func (b *bench) watches() (n int) {
	d := b.relay.directory
	return len(d.Names.Watched("")) + len(d.Watched(""))
}

// However many prefixes are watched, few are asked for.
func TestAskedPrefixesAreLimited(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		bs[1].open(bs[0])
		c := bs[1].connect()
		for i := range 64 + 1 {
			if i == 64 {
				require.Equal(t, 64, bs[0].watches())
			}
			c.mustWatch("live", fmt.Sprint(i))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		require.Equal(t, 1, bs[0].watches())
	})
}

// Subscribers of a relay are offered the tracks of its upstream relay. They pause until somebody wants objects.
func TestTracksOfAnUpstream(t *testing.T) {
	onBenches(t, Config{}, 3, func(bs []*bench) {
		bs[1].open(bs[0])
		bs[2].open(bs[1])
		src := &source{properties: moqt.Properties{0x38, 1}}
		_, err := src.offer(bs[0].connect(), moqt.Parameters{})
		require.NoError(t, err)
		c := bs[2].connect()
		o := c.acceptOffers(&offered{})
		w := c.mustSubscribeTracks(moqt.Parameters{}, "live")
		s := <-o.subs
		require.Equal(t, video, s.Track())
		require.Equal(t, src.properties, s.Properties())
		time.Sleep(time.Second)
		src.group(4, 2)
		require.Equal(t, "4.0, 4.1, 4 fin", o.take())
		k, _ := bs[2].connect().mustSubscribe(moqt.Parameters{})
		src.group(5, 1)
		require.Contains(t, k.take(), "5.0, 5 fin")
		require.Equal(t, 1, bs[2].atUpstream())
		w.Cancel(moqt.ResetCancelled)
		c.Session.Close(moqt.SessionNoError, "")
		time.Sleep(time.Minute)
		src.group(6, 1)
		require.Equal(t, "6.0, 6 fin", k.take())
		require.Zero(t, bs[1].watches())
	})
}

// An upstream relay gets nothing that was not announced to it.
func TestUpstreamGetsOnlyWhatWasAnnounced(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		bs[1].open(bs[0], moqt.Namespace{"live"})
		bs[1].connect().announce("private")
		peers, _ := bs[0].relay.sessions.list()
		for name, code := range map[string]moqt.RequestErrorCode{
			"private": moqt.RequestUnauthorized, "live": moqt.RequestDoesNotExist,
		} {
			track := moqt.FullTrackName{Namespace: moqt.Namespace{name, "room"}, Name: "video"}
			_, err := peers[0].Session.TrackStatus(bs[0].ctx, moqt.TrackStatus{Track: track})
			bs[0].refused(err, code)
		}
	})
}

// FollowNamespaces tells of peers of this process only.
func TestFollowNamespaces(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		bs[1].open(bs[0])
		bs[0].connect().announce("far")
		bs[1].connect().mustWatch()
		bs[1].connect().announce("live", "room")
		n := &namespaces{}
		stop := bs[1].relay.neighbors.FollowNamespaces("", func(ns moqt.Namespace, on bool) {
			n.change(ns, false, moqt.Parameters{})
			if on {
				n.change(ns, true, moqt.Parameters{})
			}
		})
		require.Equal(t, []string{"live-room"}, n.now())
		src := bs[1].next(nil)
		require.Equal(t, []string{"live-room"}, n.now(), "two reasons")
		again := bs[1].connect().announce("again")
		require.Equal(t, []string{"again", "live-room"}, n.now())
		again.Cancel(moqt.ResetCancelled)
		src.c.Session.Close(moqt.SessionNoError, "")
		require.Equal(t, []string{"live-room"}, n.now())
		stop()
		bs[1].connect().announce("later")
		require.Equal(t, []string{"live-room"}, n.now())
	})
}

func TestNamespacesOfAnUpstreamAreLimited(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		u, _ := bs[1].open(bs[0])
		tell := func(on bool, fields ...string) { u.names.Changed(u, fields, on, moqt.Parameters{}) }
		for i := range maxUpstreamNamespaces {
			tell(true, "live", fmt.Sprint(i))
		}
		tell(true, "more")
		tell(true, "live", "0")
		space := &bs[1].relay.directory.Names
		require.Len(t, space.Announced(names.PlaceOf("", moqt.Namespace{"live", "0"})), 1)
		require.Empty(t, space.Announced(names.PlaceOf("", moqt.Namespace{"more"})))
		for i := range maxUpstreamNamespaces {
			tell(false, "live", fmt.Sprint(i))
		}
		require.True(t, space.IsEmpty())
	})
}
