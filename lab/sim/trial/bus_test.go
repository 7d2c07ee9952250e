package trial

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sluice/server/cluster"
)

// onBus runs a test with the engines of three nodes, which are connected. got has what the third one has received.
func onBus(t *testing.T, kind Messages, f func(t *testing.T, b *bus, engines []cluster.Engine, got *[]string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, got := newBus(1, 3, kind), new([]string)
		var engines []cluster.Engine
		for i := range 3 {
			engines = append(engines, b.engine(i+1))
		}
		for i, e := range engines {
			require.False(t, e.Present())
			require.Equal(t, !kind.Servers, e.Alone())
			require.NoError(t, e.Subscribe(func(_ string, data []byte) {
				if i == 2 {
					*got = append(*got, string(data))
				}
			}, "a.*"))
		}
		time.Sleep(mostReconnect)
		synctest.Wait()
		f(t, b, engines, got)
		for _, e := range engines {
			require.NoError(t, e.Close())
		}
		time.Sleep(time.Minute) // for what was to happen later
	})
}

// TestBusKeepsOrder sends messages that take different times. They arrive in order, also those that come twice.
func TestBusKeepsOrder(t *testing.T) {
	kind := Messages{Delay: 10 * time.Millisecond, Jitter: 50 * time.Millisecond, Slow: 0.1, Duplicate: 0.1, Loss: 0.1}
	onBus(t, kind, func(t *testing.T, _ *bus, engines []cluster.Engine, got *[]string) {
		for i := range 200 {
			require.NoError(t, engines[0].Publish("a.x", fmt.Append(nil, 1000+i)))
			require.NoError(t, engines[0].Publish("b.x", nil))
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.IsNonDecreasing(t, *got)
		seen := make(map[string]int)
		for _, m := range *got {
			seen[m]++
		}
		assert.InDelta(t, 180, len(seen), 15, "some are lost")
		assert.Greater(t, len(*got), len(seen), "some come twice")
	})
}

// TestBusCutForAMoment sends a message while a node is cut off, and nobody has noticed: it comes later.
func TestBusCutForAMoment(t *testing.T) {
	onBus(t, Messages{}, func(t *testing.T, b *bus, engines []cluster.Engine, got *[]string) {
		b.cut(3)
		require.NoError(t, engines[0].Publish("a.x", []byte("late")))
		time.Sleep(leastFound - time.Millisecond)
		synctest.Wait()
		require.Empty(t, *got)
		require.True(t, engines[2].Present())
		b.heal(3)
		synctest.Wait()
		require.Equal(t, []string{"late"}, *got)
	})
}

// TestBusCutForLong sends a message while a node is cut off for so long that it is noticed: the message is lost.
func TestBusCutForLong(t *testing.T) {
	for _, servers := range []bool{false, true} {
		onBus(t, Messages{Servers: servers}, func(t *testing.T, b *bus, engines []cluster.Engine, got *[]string) {
			b.cut(3)
			require.NoError(t, engines[0].Publish("a.x", []byte("lost")))
			time.Sleep(mostFound)
			synctest.Wait()
			require.False(t, engines[2].Present())
			require.Equal(t, !servers, engines[2].Alone(), "its server has no other one")
			require.True(t, engines[0].Present(), "the others have each other")
			b.heal(3)
			time.Sleep(mostReconnect)
			synctest.Wait()
			require.True(t, engines[2].Present())
			require.NoError(t, engines[0].Publish("a.x", []byte("new")))
			synctest.Wait()
			require.Equal(t, []string{"new"}, *got)
		})
	}
}

// TestBusOfKilledNodes kills two nodes. The third one is alone until another process becomes one of them.
func TestBusOfKilledNodes(t *testing.T) {
	onBus(t, Messages{}, func(t *testing.T, b *bus, engines []cluster.Engine, got *[]string) {
		b.kill(1)
		b.kill(2)
		require.NoError(t, engines[0].Publish("a.x", []byte("from a dead one")))
		synctest.Wait()
		require.Empty(t, *got)
		require.True(t, engines[2].Alone())
		again := b.engine(1)
		time.Sleep(mostReconnect)
		synctest.Wait()
		require.True(t, engines[2].Present())
		require.NoError(t, again.Publish("a.x", []byte("again")))
		synctest.Wait()
		require.Equal(t, []string{"again"}, *got)
		require.NoError(t, again.Close())
	})
}
