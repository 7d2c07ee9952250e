package relay

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
	"sluice/transport/transporttest"
)

const large = 4 << 10 // bytes of an object

// slow is a session on which a response waits for its reader after two objects.
var slow = transporttest.PipeConfig{StreamWindow: 2 * large}

// fetchLarge fetches a group of large objects with a priority, and does not read the response yet.
func (c *client) fetchLarge(group uint64, priority uint8) (*session.Fetch, transport.ReceiveStream) {
	m := standalone(at(group, 0), at(group+1, 0))
	m.Parameters.SubscriberPriority = &priority
	f, err := c.Fetch(c.b.ctx, m)
	require.NoError(c.b.t, err)
	_, err = f.Wait(c.b.ctx)
	require.NoError(c.b.t, err)
	stream, err := f.Stream(c.b.ctx)
	require.NoError(c.b.t, err)
	synctest.Wait()
	return f, stream
}

// onLargeBench has two groups of 30 large objects in the cache, and a client.
func onLargeBench(t *testing.T, pipe transporttest.PipeConfig, f func(b *bench, c *client)) {
	onBench(t, Config{StallTimeout: time.Hour}, func(b *bench) {
		src := b.origin(&source{})
		b.connect().mustSubscribe(moqt.Parameters{})
		for group := range uint64(2) {
			g := src.open(moqt.SubgroupHeader{GroupID: group, FirstObject: true})
			for o := range uint64(30) {
				g.write(moqt.ObjectHeader{ObjectID: o}, strings.Repeat("x", large))
			}
			g.fin()
		}
		f(b, b.connectWith(pipe))
	})
}

// drain reads responses, and returns how much of the first had come when most of the second had.
func drain(first, second io.Reader) (progress int64) {
	var n atomic.Int64
	go io.Copy(counting{&n}, first)
	io.CopyN(io.Discard, second, 24*large)
	progress = n.Load()
	io.Copy(io.Discard, second)
	return progress
}

type counting struct{ n *atomic.Int64 }

func (c counting) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

func TestFetchPriorityIsUpdated(t *testing.T) {
	onLargeBench(t, slow, func(b *bench, c *client) {
		request, first := c.fetchLarge(0, 10)
		_, other := c.fetchLarge(1, 100)
		err := request.Update(b.ctx, moqt.Parameters{SubscriberPriority: new(uint8(200))})
		require.NoError(t, err)
		synctest.Wait()
		require.Less(t, drain(first, other), int64(15*large))
	})
}

func TestFetchThatIsNotReadDoesNotHoldUpOthers(t *testing.T) {
	onLargeBench(t, slow, func(_ *bench, c *client) {
		c.fetchLarge(0, 10)
		_, other := c.fetchLarge(1, 100)
		n, err := io.Copy(io.Discard, other)
		require.NoError(t, err)
		require.Greater(t, n, int64(30*large))
	})
}
