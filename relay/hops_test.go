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

		require.NoError(t, short.Update(b.ctx, moqt.Parameters{RouteCost: ptr(uint64(math.MaxUint64))}))
		require.Equal(t, fmt.Sprintf("live-a [0 81] for 1, live-b [0 9 8 81] for %d", uint64(math.MaxUint64)),
			fourth.now(), "costs do not overflow")
		require.NoError(t, short.Update(b.ctx, moqt.Parameters{HopPath: moqt.HopPath{6}, RouteCost: ptr(uint64(0))}))
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
