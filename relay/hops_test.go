package relay

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
)

const testHop = 0x51 // of the relay under test

var hopping = Config{Session: session.Config{HopID: testHop}}

// asRelay connects a client as a relay with a Hop ID.
func asRelay(id uint64) func(*session.Config) {
	return func(cfg *session.Config) { cfg.HopID = id }
}

// announceBy announces a namespace that has come through a path, at a cost.
func (c *client) announceBy(path moqt.HopPath, cost uint64, ns ...string) *session.PublishedNamespace {
	p, err := c.PublishNamespace(c.b.ctx, moqt.PublishNamespace{
		Namespace: ns, Parameters: moqt.Parameters{HopPath: path, RouteCost: &cost},
	})
	require.NoError(c.b.t, err)
	require.NoError(c.b.t, p.Wait(c.b.ctx))
	return p
}

// ways follows a SUBSCRIBE_NAMESPACE, with the paths and costs.
type ways struct {
	mu      sync.Mutex
	of      map[string]string
	changes int
}

func (w *ways) change(ns moqt.Namespace, published bool, p moqt.Parameters) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes++
	delete(w.of, ns.String())
	if published {
		w.of[ns.String()] = fmt.Sprintf("%d for %d", p.HopPath, p.Cost())
	}
}

// now returns the namespaces as "live-a [3 81] for 2".
func (w *ways) now() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for ns, way := range w.of {
		list = append(list, ns+" "+way)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (c *client) watchWays() *ways {
	w := &ways{of: make(map[string]string)}
	n, err := c.SubscribeNamespace(c.b.ctx, moqt.SubscribeNamespace{}, w.change)
	require.NoError(c.b.t, err)
	require.NoError(c.b.t, n.Wait(c.b.ctx))
	return w
}

func TestNamespacesCarryTheirWay(t *testing.T) {
	onBench(t, hopping, func(b *bench) {
		relay, third, player := b.connect(asRelay(9)), b.connect(asRelay(3)), b.connect()
		toRelay, toThird, toPlayer := relay.watchWays(), third.watchWays(), player.watchWays()

		b.connect().announce("live", "a")
		require.Equal(t, "live-a [0 81] for 1", toRelay.now(), "the publisher has no Hop ID")
		require.Equal(t, "live-a [] for 0", toPlayer.now())

		origin := b.connect(asRelay(7))
		long := origin.announceBy(moqt.HopPath{0, 3}, 5, "live", "b")
		require.Equal(t, "live-a [0 81] for 1, live-b [0 3 7 81] for 6", toRelay.now())
		require.Equal(t, "live-a [0 81] for 1", toThird.now(), "it has come through this relay")
		require.Equal(t, "live-a [] for 0, live-b [] for 0", toPlayer.now())

		// A cheaper way is the better one; each relay gets the best that has not come through itself.
		short := b.connect(asRelay(8)).announceBy(moqt.HopPath{0, 9}, 1, "live", "b")
		require.Equal(t, "live-a [0 81] for 1, live-b [0 3 7 81] for 6", toRelay.now())
		require.Equal(t, "live-a [0 81] for 1, live-b [0 9 8 81] for 2", toThird.now())
		fourth := b.connect(asRelay(4)).watchWays()
		require.Equal(t, "live-a [0 81] for 1, live-b [0 9 8 81] for 2", fourth.now())
		changes := fourth.changes
		long.Cancel(moqt.ResetCancelled)
		require.Equal(t, "live-a [0 81] for 1", toRelay.now())
		require.Equal(t, "live-a [0 81] for 1, live-b [0 9 8 81] for 2", fourth.now())
		require.Equal(t, changes, fourth.changes, "the best way is the same")
		require.Equal(t, "live-a [] for 0, live-b [] for 0", toPlayer.now())

		require.NoError(t, short.Update(b.ctx, moqt.Parameters{RouteCost: new(uint64(math.MaxUint64))}))
		require.Equal(t, fmt.Sprintf("live-a [0 81] for 1, live-b [0 9 8 81] for %d", uint64(math.MaxUint64)),
			fourth.now(), "costs do not overflow")
		require.NoError(t, short.Update(b.ctx, moqt.Parameters{HopPath: moqt.HopPath{6}, RouteCost: new(uint64(0))}))
		require.Equal(t, "live-a [0 81] for 1, live-b [6 8 81] for 1", toRelay.now())
		require.NoError(t, short.Update(b.ctx, moqt.Parameters{HopPath: moqt.HopPath{9}}))
		require.Equal(t, "live-a [0 81] for 1", toRelay.now(), "it comes through this relay now")
	})
}

func TestNamespacesThatComeBack(t *testing.T) {
	onBench(t, hopping, func(b *bench) {
		player := b.connect().watchWays()
		c := b.connect(asRelay(7))
		_, err := c.PublishNamespace(b.ctx, moqt.PublishNamespace{
			Namespace: moqt.Namespace{"live"}, Parameters: moqt.Parameters{HopPath: moqt.HopPath{testHop}},
		})
		require.ErrorIs(t, err, session.ErrLoop, "a relay that plays by the rules does not send it")
		other := b.connect(asRelay(8))
		long := make(moqt.HopPath, moqt.MaxHops-1)
		other.announceBy(long, 0, "far")
		require.Equal(t, "far [] for 0", player.now(), "players may have it")
		require.Empty(t, b.connect(asRelay(9)).watchWays().now(), "but no further relay")
		require.NoError(t, context.Cause(other.Context()))
	})
}

// Each relay has a Hop ID, which is its own.
func TestRandomHopIDs(t *testing.T) {
	seen := make(map[uint64]bool)
	for range 100 {
		id := Config{}.withDefaults().Session.HopID
		require.NotZero(t, id)
		require.Less(t, id, uint64(1<<62))
		require.False(t, seen[id])
		seen[id] = true
	}
}

// subscribeBy subscribes with a request that has come through a path.
func (c *client) subscribeBy(path ...uint64) (*sink, *session.Subscription, error) {
	return c.subscribe(moqt.Parameters{HopPath: path})
}

// A peer is not asked on behalf of one whose request has come through it.
func TestSubscribersDoNotWaitForThemselves(t *testing.T) {
	onBench(t, hopping, func(b *bench) {
		origin := b.connect(asRelay(9)).serve(&source{})
		origin.c.announce("live")
		synctest.Wait()
		_, _, err := b.connect(asRelay(7)).subscribeBy(9)
		b.refused(err, moqt.RequestDoesNotExist)
		_, err = b.connect(asRelay(7)).TrackStatus(b.ctx, moqt.TrackStatus{
			Track: video, Parameters: moqt.Parameters{HopPath: moqt.HopPath{9}},
		})
		b.refused(err, moqt.RequestDoesNotExist)
		require.Empty(t, origin.requests)

		_, _, err = b.connect(asRelay(7)).subscribeBy(3)
		require.NoError(t, err)
		require.Equal(t, moqt.HopPath{3, 7, testHop}, origin.requests[0].HopPath)
		_, _, err = b.connect(asRelay(8)).subscribeBy(9)
		b.refused(err, moqt.RequestDoesNotExist)
	})
}

// A relay whose objects have come through a subscriber does not feed that subscriber, but others.
func TestSubscribersAreNotFedWithTheirOwn(t *testing.T) {
	onBench(t, hopping, func(b *bench) {
		src := b.next(nil)
		k, relayed := b.connect(asRelay(7)).mustSubscribe(moqt.Parameters{})
		own, _ := b.connect().mustSubscribe(moqt.Parameters{})
		src.group(1, 1)
		require.Equal(t, "1.0, 1 fin", k.take())

		other := b.connect(asRelay(9)).serve(&source{path: moqt.HopPath{7}, largest: &moqt.Location{Group: 1}})
		other.c.announce("live")
		synctest.Wait()
		require.Len(t, other.pubs, 1)
		require.NoError(t, src.publication().Done(moqt.DoneGoingAway, ""))
		b.done(relayed, moqt.DoneGoingAway)
		other.group(2, 1)
		require.Equal(t, "1.0, 1 fin, 2.0, 2 fin", own.take())
		require.Empty(t, k.take())

		_, _, err := b.connect(asRelay(7)).subscribe(moqt.Parameters{})
		b.refused(err, moqt.RequestDoesNotExist)
		_, err = b.connect(asRelay(7)).TrackStatus(b.ctx, moqt.TrackStatus{Track: video})
		b.refused(err, moqt.RequestDoesNotExist)
		_, late := b.connect(asRelay(8)).mustSubscribe(moqt.Parameters{})
		require.NoError(t, late.Context().Err())
	})
}

// A relay that lies about paths harms nobody: it says that the track comes through the relays that want it, and that
// its own requests come through the one that has it.
func TestFalsePaths(t *testing.T) {
	onBench(t, hopping, func(b *bench) {
		liar := b.connect(asRelay(666)).serve(&source{path: moqt.HopPath{9, 7}})
		liar.c.announceBy(moqt.HopPath{9}, 0, "live")
		_, _, err := liar.c.subscribeBy(7)
		b.refused(err, moqt.RequestDoesNotExist)
		origin := b.connect(asRelay(7)).serve(&source{})
		origin.c.announce("live")
		_, _, err = liar.c.subscribeBy(7)
		b.refused(err, moqt.RequestDoesNotExist)
		relay, _ := b.connect(asRelay(9)).mustSubscribe(moqt.Parameters{})
		player, _ := b.connect().mustSubscribe(moqt.Parameters{})
		synctest.Wait()
		require.Len(t, liar.pubs, 1, "it was asked, too")
		require.Len(t, origin.pubs, 1)
		origin.group(1, 2)
		require.Equal(t, "1.0, 1.1, 1 fin", relay.take())
		require.Equal(t, "1.0, 1.1, 1 fin", player.take())
	})
}
