package relay

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
)

// ring describes relays, each with the next as its upstream relay.
type ring struct {
	relays   int
	announce []moqt.Namespace // to the upstream relay
}

// onRings runs a test in rings of several sizes, which announce nothing or everything.
func onRings(t *testing.T, f func(*testing.T, ring, []*bench)) {
	for _, n := range []int{2, 3, 5} {
		for name, announce := range map[string][]moqt.Namespace{"": nil, ", announcing": {{}}} {
			t.Run(fmt.Sprintf("%d%s", n, name), func(t *testing.T) {
				r := ring{n, announce}
				r.run(t, func(bs []*bench) { f(t, r, bs) })
			})
		}
	}
}

func (r ring) run(t *testing.T, f func([]*bench)) {
	t.Helper()
	onBenches(t, Config{}, r.relays, func(bs []*bench) {
		for i, b := range bs {
			b.open(bs[(i+1)%r.relays], r.announce...)
		}
		f(bs)
	})
}

// requireRest checks that no relay asks another one for anything.
func requireRest(t *testing.T, bs []*bench) {
	t.Helper()
	synctest.Wait()
	for i, b := range bs {
		require.Zero(t, b.atUpstream(), "relay %d", i)
		require.Zero(t, b.watches(), "relay %d", i)
	}
}

func TestRingWithoutPublisher(t *testing.T) {
	onRings(t, func(t *testing.T, _ ring, bs []*bench) {
		_, _, err := bs[0].connect().subscribe(moqt.Parameters{})
		bs[0].refused(err, moqt.RequestDoesNotExist)
		_, err = bs[0].connect().TrackStatus(bs[0].ctx, moqt.TrackStatus{Track: video})
		bs[0].refused(err, moqt.RequestDoesNotExist)
		all := moqt.Fetch{FetchType: moqt.FetchStandalone, Track: video, End: moqt.Location{Group: 1}}
		bs[0].refused(bs[0].connect().fetch(all).err, moqt.RequestDoesNotExist)
		requireRest(t, bs)
	})
}

// A track crosses each link once, and not the link that closes the ring.
func TestRingFeeds(t *testing.T) {
	for name, publish := range publishing {
		t.Run(name, func(t *testing.T) {
			onRings(t, func(t *testing.T, _ ring, bs []*bench) {
				src := publish(bs[0])
				var sinks []*sink
				var subs []*session.Subscription
				for _, b := range bs {
					k, s := b.connect().mustSubscribe(moqt.Parameters{})
					sinks, subs = append(sinks, k), append(subs, s)
				}
				src.group(1, 2)
				for i, k := range sinks {
					require.Equal(t, "1.0, 1.1, 1 fin", k.take(), "relay %d", i)
				}
				require.Len(t, src.pubs, 1, "the publisher has one subscription")
				for i, b := range bs {
					require.Equal(t, 1, b.established(), "publishers of relay %d", i)
				}
				src.c.Close(moqt.SessionNoError, "")
				for i, s := range subs {
					select {
					case <-s.Context().Done():
					case <-time.After(time.Minute):
						t.Fatalf("the subscription at relay %d goes on without a publisher", i)
					}
				}
				time.Sleep(10 * time.Second)
				requireRest(t, bs)
			})
		})
	}
}

// established counts the publishers of the track.
func (b *bench) established() (n int) {
	for _, t := range b.relay.Overview().Tracks {
		n += t.Publishers
	}
	return n
}

func TestRingOfNamespaces(t *testing.T) {
	onRings(t, func(t *testing.T, _ ring, bs []*bench) {
		var all []*namespaces
		for _, b := range bs {
			w := b.connect().mustWatch()
			all = append(all, w)
		}
		one := bs[0].connect().announce("live", "one")
		two := bs[1].connect().announce("live", "two")
		for i, w := range all {
			require.Equal(t, []string{"live-one", "live-two"}, w.now(), "relay %d", i)
		}
		one.Cancel(moqt.ResetCancelled)
		time.Sleep(10 * time.Second) // more than Config.Linger
		for i, w := range all {
			require.Equal(t, []string{"live-two"}, w.now(), "relay %d", i)
		}
		two.Cancel(moqt.ResetCancelled)
		time.Sleep(10 * time.Second)
		for i, w := range all {
			require.Empty(t, w.now(), "relay %d", i)
			w.Cancel(moqt.ResetCancelled)
		}
		time.Sleep(time.Minute)
		requireRest(t, bs)
	})
}
