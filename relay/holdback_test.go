package relay

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// slowConn blocks writes to request streams until open is closed.
type slowConn struct {
	transport.Conn
	open chan struct{}
}

func (c *slowConn) AcceptStream(ctx context.Context) (transport.Stream, error) {
	s, err := c.Conn.AcceptStream(ctx)
	return slowStream{s, c.open}, err
}

func (c *slowConn) OpenStream() (transport.Stream, error) {
	s, err := c.Conn.OpenStream()
	return slowStream{s, c.open}, err
}

type slowStream struct {
	transport.Stream
	open chan struct{}
}

func (s slowStream) Write(b []byte) (int, error) {
	if len(b) > 0 {
		select {
		case <-s.open:
		case <-s.Context().Done():
		}
	}
	return s.Stream.Write(b)
}

// slowClient connects a client that gets no response of the relay until open is closed.
func (b *bench) slowClient() (c *client, open chan struct{}) {
	conn, server := transporttest.Pipe(transporttest.PipeConfig{})
	open = make(chan struct{})
	return b.attach(conn, &slowConn{server, open}), open
}

// late has such a client subscribe.
func (b *bench) late() (c *client, k *sink, sub *session.Subscription, open chan struct{}) {
	c, open = b.slowClient()
	k = &sink{}
	sub, err := c.Subscribe(b.ctx, moqt.Subscribe{Track: video}, k)
	require.NoError(b.t, err)
	synctest.Wait()
	return c, k, sub, open
}

func TestDataWaitsForTheResponse(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		first, _ := b.connect().mustSubscribe(moqt.Parameters{})
		src.group(1, 2)
		require.Equal(t, "1.0, 1.1, 1 fin", first.take())

		late, open := b.slowClient()
		k := &sink{}
		sub, err := late.Subscribe(b.ctx, moqt.Subscribe{Track: video}, k)
		require.NoError(t, err)
		synctest.Wait()
		g := src.open(moqt.SubgroupHeader{GroupID: 2, FirstObject: true}).object(0)
		require.NoError(t, src.publication().SendDatagram(moqt.ObjectDatagram{Location: at(3, 0),
			Payload: []byte("x")}))
		g.object(1)
		synctest.Wait()
		require.Len(t, strings.Split(first.take(), ", "), 3)
		require.Empty(t, late.sender().subs[0].opened, "streams before SUBSCRIBE_OK")
		require.Empty(t, k.take())

		close(open)
		_, err = sub.Wait(b.ctx)
		require.NoError(t, err)
		g.object(2).fin()
		got := k.take()
		require.Equal(t, "1.0, 1.1, 1 fin", ofGroup(got, "1"))
		require.Equal(t, "2.0, 2.1, 2.2, 2 fin", ofGroup(got, "2"))
		require.Contains(t, got, "datagram 3.0")
	})
}

// ofGroup returns what a sink took of one group. Streams that are open at the same time come in any order.
func ofGroup(taken, group string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(taken, ", "), func(s string) bool {
		return !strings.HasPrefix(s, group+".") && !strings.HasPrefix(s, group+" ")
	}), ", ")
}

func TestTrackThatEndsBeforeTheResponse(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		b.connect().mustSubscribe(moqt.Parameters{})
		src.group(1, 2)
		_, k, sub, open := b.late()
		require.NoError(t, src.publication().Done(moqt.DoneTrackEnded, ""))
		synctest.Wait()
		close(open)
		b.done(sub, moqt.DoneTrackEnded)
		require.Equal(t, "1.0, 1.1, 1 fin", k.take(), "what was published before")
	})
}

// What ends while it waits is still sent, also if nothing is cached.
func TestDataThatEndsBeforeTheResponse(t *testing.T) {
	onBench(t, Config{Cache: track.CacheConfig{Duration: -1}}, func(b *bench) {
		src := b.origin(&source{})
		first, _ := b.connect().mustSubscribe(moqt.Parameters{})
		g := src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0)

		_, k, sub, open := b.late()
		g.object(1).fin()
		src.group(2, 2)
		require.Len(t, strings.Split(first.take(), ", "), 6)
		close(open)
		_, err := sub.Wait(b.ctx)
		require.NoError(t, err)
		got := k.take()
		require.Contains(t, ofGroup(got, "1"), "1.1, 1 fin")
		require.Equal(t, "2.0, 2.1, 2 fin", ofGroup(got, "2"))

		_, _, sub, _ = b.late()
		src.group(3, 2)
		sub.Cancel(moqt.ResetCancelled)
		synctest.Wait()
		// onBench checks that nothing remains in memory.
	})
}

// opened returns how many streams of a client's subscription were opened.
func opened(c *client) int {
	synctest.Wait()
	s := c.sender().subs[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.opened)
}

// What waits is limited: with one piece of data more, all is sent.
func TestLittleDataWaitsForTheResponse(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		b.connect().mustSubscribe(moqt.Parameters{})
		late, _, _, open := b.late()
		const most = 256
		for group := range uint64(most) {
			src.group(group, 1)
		}
		require.Zero(t, opened(late))
		src.group(most, 1)
		require.Equal(t, most+1, opened(late))
		close(open)
	})
}

func TestDataWaitsForTheResponseForALimitedTime(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		b.connect().mustSubscribe(moqt.Parameters{})
		late, _, _, open := b.late()
		src.group(1, 1)
		require.Zero(t, opened(late))
		time.Sleep(time.Second)
		require.Equal(t, 1, opened(late))
		close(open)
	})
}
