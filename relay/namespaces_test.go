package relay

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
)

// namespaces follows a SUBSCRIBE_NAMESPACE.
type namespaces struct {
	*session.NamespaceSubscription
	mu  sync.Mutex
	set []string
}

func (n *namespaces) change(ns moqt.Namespace, published bool, _ moqt.Parameters) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if published {
		n.set = append(n.set, ns.String())
	} else {
		n.set = slices.DeleteFunc(n.set, func(s string) bool { return s == ns.String() })
	}
}

func (n *namespaces) now() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.Sort(n.set)
	return slices.Clone(n.set)
}

func (c *client) watch(prefix ...string) (*namespaces, error) {
	n := &namespaces{}
	var err error
	n.NamespaceSubscription, err = c.SubscribeNamespace(c.b.ctx, moqt.SubscribeNamespace{Prefix: prefix}, n.change)
	require.NoError(c.b.t, err)
	return n, n.Wait(c.b.ctx)
}

func (c *client) mustWatch(prefix ...string) *namespaces {
	c.b.t.Helper()
	n, err := c.watch(prefix...)
	require.NoError(c.b.t, err)
	return n
}

func TestNamespaceDiscovery(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		one, two := b.connect(), b.connect()
		one.announce("live", "a")
		all := b.connect().mustWatch()
		live := b.connect().mustWatch("live")
		exact := one.mustWatch("live", "a")
		below := b.connect().mustWatch("live", "a", "b")
		require.Equal(t, []string{"live-a"}, all.now())
		require.Equal(t, []string{"live-a"}, exact.now(), "one's own namespaces are echoed")

		again := two.announce("live", "a")
		deep := two.announce("live", "a", "b", "c")
		two.announce("vod")
		require.Equal(t, []string{"live-a", "live-a-b-c", "vod"}, all.now())
		require.Equal(t, []string{"live-a", "live-a-b-c"}, live.now())
		require.Equal(t, []string{"live-a-b-c"}, below.now())

		again.Cancel(moqt.ResetCancelled)
		deep.Cancel(moqt.ResetCancelled)
		require.Equal(t, []string{"live-a"}, live.now(), "somebody else publishes it still")
		require.Empty(t, below.now())
		one.Session.Close(moqt.SessionNoError, "")
		require.Empty(t, live.now())
		require.Equal(t, []string{"vod"}, all.now())
	})
}

// publishBelow announces three namespaces below a prefix, and offers a track in each.
func (c *client) publishBelow(prefix string) {
	for _, field := range []string{"a", "b", "c"} {
		c.announce(prefix, field)
		p, err := c.Publish(c.b.ctx, moqt.Publish{Track: moqt.FullTrackName{Namespace: moqt.Namespace{prefix, field}}})
		require.NoError(c.b.t, err)
		require.NoError(c.b.t, p.Wait(c.b.ctx))
	}
}

func TestPrefixesThatMatchTooMuch(t *testing.T) {
	onBench(t, Config{MaxMatches: 2}, func(b *bench) {
		b.connect().publishBelow("live")
		c := b.connect()
		_, err := c.watch("live")
		b.refused(err, moqt.RequestNamespaceTooLarge)
		_, err = c.subscribeTracks(moqt.Parameters{}, "live")
		b.refused(err, moqt.RequestNamespaceTooLarge)
		n := c.mustWatch("live", "a")
		w := c.mustSubscribeTracks(moqt.Parameters{}, "live", "a")
		time.Sleep(time.Second) // see MatchRate
		require.NoError(t, n.Update(b.ctx, moqt.Parameters{NamespacePrefix: &moqt.Namespace{"live", "b"}}))
		require.Equal(t, []string{"live-b"}, n.now())

		longer := moqt.Parameters{NamespacePrefix: &moqt.Namespace{"live"}}
		b.refused(n.Update(b.ctx, longer), moqt.RequestNamespaceTooLarge)
		b.refused(w.Update(b.ctx, longer), moqt.RequestNamespaceTooLarge)
		synctest.Wait()
		require.Error(t, n.Context().Err(), "an update that is refused ends the request")
		require.Error(t, w.Context().Err())
	})
}

// TestPrefixThatMatchesMoreAndMore announces more namespaces than a request is told of, unless a relay has sent it.
func TestPrefixThatMatchesMoreAndMore(t *testing.T) {
	onBench(t, Config{MaxMatches: 2, Session: hopping.Session}, func(b *bench) {
		n, relay := b.connect().mustWatch("live"), b.connect(asRelay(9)).watchWays()
		c := b.connect()
		first := c.announce("live", "a")
		c.announce("live", "b")
		c.announce("live", "c")
		require.Equal(t, []string{"live-a", "live-b"}, n.now())
		first.Cancel(moqt.ResetCancelled)
		synctest.Wait()
		c.announce("live", "d")
		require.Equal(t, []string{"live-b", "live-d"}, n.now())
		require.Equal(t, "live-b [0 81] for 1, live-c [0 81] for 1, live-d [0 81] for 1", relay.now())
	})
}

// TestPrefixesOfAnAddress has sessions of one address match as much as it may, and then more.
func TestPrefixesOfAnAddress(t *testing.T) {
	exempt := []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")}
	onBench(t, Config{PerAddress: Quota{RequestRate: 1}, Exempt: exempt}, func(b *bench) {
		c := b.from("192.0.2.9")
		for i := range 100 {
			c.announce("live", strconv.Itoa(i))
		}
		for range 3 { // of the 320 of 64 a second, and charge.Burst
			b.from("192.0.2.1").mustWatch("live")
		}
		_, err := b.from("192.0.2.1").watch("live")
		b.refused(err, moqt.RequestExcessiveLoad)
		b.exceeded(charge.ByAddress, charge.RequestRate, 1)
		b.from("192.0.2.2").mustWatch("live")
	})
}

// TestPrefixesThatMatchTooOften lets a session match four values, and then one per second.
func TestPrefixesThatMatchTooOften(t *testing.T) {
	onBench(t, Config{MaxMatches: 4, MatchRate: 1}, func(b *bench) {
		b.connect().publishBelow("live")
		live := moqt.Parameters{NamespacePrefix: &moqt.Namespace{"live"}}
		c := b.connect()
		c.acceptOffers(&offered{})
		n := c.mustWatch("live")
		w := c.mustSubscribeTracks(moqt.Parameters{}, "live", "a")
		nothing := moqt.Parameters{NamespacePrefix: &moqt.Namespace{"other"}}
		require.NoError(t, n.Update(b.ctx, nothing))

		b.refused(n.Update(b.ctx, live), moqt.RequestExcessiveLoad)
		b.refused(w.Update(b.ctx, live), moqt.RequestExcessiveLoad)
		_, err := c.watch("live")
		b.refused(err, moqt.RequestExcessiveLoad)
		require.NotZero(t, err.(*moqt.RequestError).RetryInterval)
		_, err = b.connect().watch("live")
		require.NoError(t, err, "other sessions are not affected")

		time.Sleep(3 * time.Second)
		n = c.mustWatch("live")
		require.Equal(t, []string{"live-a", "live-b", "live-c"}, n.now())
	})
}

// TestAnnouncementsToManyWatchers tells 100 watchers three times, which is nearly as much as an address may at once,
// and then again.
func TestAnnouncementsToManyWatchers(t *testing.T) {
	exempt := []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")}
	onBench(t, Config{PerAddress: Quota{RequestRate: 1}, Exempt: exempt}, func(b *bench) {
		for range 100 {
			w := b.from("192.0.2.9")
			w.mustWatch("live")
			w.mustSubscribeTracks(moqt.Parameters{}, "live")
		}
		c := b.from("192.0.2.1")
		announced := c.announce("live")
		soon, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		for range 3 {
			require.NoError(t, announced.Update(soon, moqt.Parameters{}))
		}
		require.ErrorIs(t, announced.Update(soon, moqt.Parameters{}), context.DeadlineExceeded, "the third one waits")
		time.Sleep(10 * time.Second)
		for _, name := range []string{"a", "b", "c"} {
			_, err := c.publish(name)
			require.NoError(t, err)
		}
		_, err := c.publish("d")
		b.refused(err, moqt.RequestExcessiveLoad)
		b.exceeded(charge.ByAddress, charge.RequestRate, 1)
	})
}

// TestAnnouncementsOfManyTracks checks that a peer that announces a namespace with many tracks again and again is
// served later, and not refused.
func TestAnnouncementsOfManyTracks(t *testing.T) {
	onBench(t, Config{MaxMatches: 4, MatchRate: 1}, func(b *bench) {
		b.connect().publishBelow("live")
		c := b.connect()
		c.announce("live").Cancel(moqt.ResetCancelled)
		p, err := c.PublishNamespace(b.ctx, moqt.PublishNamespace{Namespace: moqt.Namespace{"live"}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, p.Wait(ctx), context.DeadlineExceeded)
		require.NoError(t, p.Wait(b.ctx))
	})
}
