package fastpath

import (
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/lab"
	"sluice/moqt"
)

// TestReclaimerRests has nothing to free, then something.
func TestReclaimerRests(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	reclaimer := r.fast.reclaimer
	soon := func(what func() bool, message string) {
		t.Helper()
		require.Eventually(t, what, time.Minute, time.Millisecond, message)
	}
	soon(reclaimer.rests.Load, "it rests")
	var slot uint32
	require.NoError(t, r.ingress.FreeStreams.LookupAndDelete(nil, &slot))
	c := r.connection(0)
	c.mu.Lock() // it needs the lock when it looks
	r.fast.freeSlot(slot)
	soon(func() bool { return !reclaimer.rests.Load() }, "it is going to look")
	c.mu.Unlock()
	soon(func() bool { return !reclaimer.waits() }, "the slot is freed")
	soon(reclaimer.rests.Load, "it rests again")
}

// TestEndedConnectionsLeaveTracks closes a subscriber and a publisher, and the relay has not heard of it yet. Before
// other connections can have their indices, no track names them.
func TestEndedConnectionsLeaveTracks(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	k := r.kernel
	publisher, leaves, stays := r.connect(), r.connect(), r.connect()
	track := r.fast.NewTrack()
	forward := func() {
		track.Forward(publisher, 7, 128, []Subscriber{{Conn: leaves, Alias: 1}, {Conn: stays, Alias: 2}})
	}
	listed := func() (list []uint32) {
		var v bpf.Track
		key := bpf.VersionKey{Version: k.tracks.current[track.index], Index: track.index}
		require.NoError(t, k.ingress.Tracks.Lookup(key, &v))
		for _, s := range v.Subscriptions[:v.Count] {
			list = append(list, s.Subscriber)
		}
		return list
	}
	end := func(c *conn) {
		c.Close()
		<-awaitReady(t, r.fast, c.index)
	}
	forward()
	require.Equal(t, []uint32{leaves.index, stays.index}, listed())
	end(leaves)
	require.Equal(t, []uint32{stays.index}, listed())
	forward() // by somebody who does not know yet
	require.Equal(t, []uint32{stays.index}, listed())
	end(publisher)
	require.Zero(t, k.tracks.current[track.index])
	require.ErrorIs(t, k.RemoveAlias(publisher.index, 7), ebpf.ErrKeyNotExist)
	forward()
	require.ErrorIs(t, k.RemoveAlias(publisher.index, 7), ebpf.ErrKeyNotExist)
	track.mu.Lock() // as if the publisher had ended a moment ago
	require.False(t, track.enterLocked(publisher, 7, forwarding{128, []Subscriber{{Conn: stays, Alias: 2}}}))
	track.mu.Unlock()
	require.Zero(t, k.tracks.current[track.index])
	end(stays)
	track.Close()
}

// TestEndedConnectionsLeaveStreams has user space read a stream when the publisher's index is another one's. That does
// not touch the other one's stream with the same id.
func TestEndedConnectionsLeaveStreams(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	const stream = 3
	subscriber, first := r.connect(), r.connect()
	track := r.fast.NewTrack()
	defer track.Close()
	forward := func(from *conn) { track.Forward(from, 7, 128, []Subscriber{{Conn: subscriber, Alias: 1}}) }
	forward(first)
	first.Close()
	<-awaitReady(t, r.fast, first.index)
	second := r.connect()
	for second.index != first.index {
		second = r.connect()
	}
	forward(second)
	end := track.Receive(first, stream, moqt.SubgroupHeader{}, 128, 4)
	key := bpf.DownstreamKey{StreamId: stream, Publisher: second.index, Subscriber: subscriber.index}
	slot, err := r.fast.newStream(key) // as the kernel does
	require.NoError(t, err)
	r.fast.streams[slot].Phase.Store(claim.StreamOpen)
	end()
	require.Empty(t, r.abandoned)
	state, adopted := subscriber.OpenStream(&claim.PublisherStream{Conn: first, StreamID: stream})
	require.Nil(t, state)
	require.False(t, adopted)
	_, adopted = subscriber.OpenStream(&claim.PublisherStream{Conn: second, StreamID: stream})
	require.True(t, adopted)
}

// TestStreamsOutliveTheirPublisher has a stream of a publisher that has ended, while another one has its index and a
// stream with the same id. The kernel claims bytes of the other one's stream only for that.
func TestStreamsOutliveTheirPublisher(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	const stream = 3
	subscriber, first := r.connect(), r.connect()
	key := bpf.DownstreamKey{StreamId: stream, Publisher: first.index, Subscriber: subscriber.index}
	open := func(publisher *conn) *claim.StreamState { // as the kernel does
		slot, err := r.fast.newStream(key)
		require.NoError(t, err)
		r.fast.streams[slot].Phase.Store(claim.StreamOpen)
		state, adopted := subscriber.OpenStream(&claim.PublisherStream{Conn: publisher, StreamID: stream})
		require.True(t, adopted)
		return state
	}
	former := open(first)
	first.Close()
	<-awaitReady(t, r.fast, first.index)
	second := r.connect()
	for second.index != first.index {
		second = r.connect()
	}
	latter := open(second)
	require.NotSame(t, former, latter)
	subscriber.CloseStream(former)
	var slot uint32
	require.NoError(t, r.fast.kernel.tables.Downstreams.Lookup(key, &slot))
	require.Same(t, latter, &r.fast.streams[slot])
	subscriber.Close()
	<-awaitReady(t, r.fast, subscriber.index)
}

// TestOpenedBehindTheSweep has the media sender open a stream of a publisher whose index is free already: it had asked
// whether the publisher is there before. A publisher that gets the index does not find the stream, and keeps its own.
func TestOpenedBehindTheSweep(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	subscriber, publisher := r.connect(), r.connect()
	publisher.Close()
	<-awaitReady(t, r.fast, publisher.index)
	key := bpf.DownstreamKey{StreamId: 3, Publisher: publisher.index, Subscriber: subscriber.index}
	state, adopted := subscriber.openStream(publisher, key, 0)
	require.NotNil(t, state)
	require.False(t, adopted)
	slot, err := r.fast.newStream(key) // as the kernel does for the other publisher
	require.NoError(t, err)
	another := &r.fast.streams[slot]
	require.NotSame(t, state, another)
	another.Phase.Store(claim.StreamOpen)
	refused, _ := subscriber.openStream(publisher, key, 0)
	require.Nil(t, refused)
	slot, found, err := subscriber.takeStream(key)
	require.NoError(t, err)
	require.True(t, found)
	require.Same(t, another, &r.fast.streams[slot])
	r.fast.states[subscriber.index].Slots.Store(streamShare)
	key.StreamId = 7
	subscriber.openStream(publisher, key, 0)
	require.ErrorIs(t, r.fast.kernel.tables.Downstreams.Lookup(key, &slot), ebpf.ErrKeyNotExist, "without a slot")
	subscriber.Close()
	<-awaitReady(t, r.fast, subscriber.index)
}

// TestForgottenStreams has a subgroup come again on another stream when the kernel has forgotten the first one, or
// never knew it: user space decides, and the kernel opens no stream. It opens streams for subgroups that follow, also
// in the same group, and for groups that come behind newer ones.
func TestForgottenStreams(t *testing.T) {
	r := newShareRig(t)
	c := r.connection(publisherIndex)
	next, alias := uint64(3), uint64(77)
	opens := func(group, subgroup uint64) bool {
		before := r.counts()
		r.run(stream(next, 0, 0, append(subgroupHeader(alias, group, subgroup, 9), "object"...)))
		next += 4
		after := r.counts()
		opened := after["copy_sent"] > before["copy_sent"]
		require.NotEqual(t, opened, after["copy_not_open"] > before["copy_not_open"], "%v, then %v", before, after)
		return opened
	}
	require.True(t, opens(5, 1))
	require.True(t, opens(7, 0))
	c.end(3, true)
	c.forgetEnded(time.Now())
	require.Equal(t, 1, r.firstStreams(), "of group 7")
	require.False(t, opens(5, 1), "it comes again")
	require.False(t, opens(4, 0), "it may have come")
	require.True(t, opens(5, 2))
	require.True(t, opens(6, 0), "its stream is late")

	r.track.Forward(nil, 0, 0, nil)
	h := moqt.SubgroupHeader{GroupID: 9, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 1}
	r.track.Receive(c, int64(next), h, 9, 5)()
	next += 4
	r.offer(r.track, true)
	require.False(t, opens(9, 1), "user space has read it meanwhile")
	require.True(t, opens(9, 2))

	alias = 79
	r.track.Forward(c, alias, 128, []Subscriber{{
		Conn: r.connection(0), Alias: 1000, Range: moqt.Range{End: moqt.Location{Group: 1<<64 - 1}}, Forward: true,
		Priority: 128,
	}})
	require.True(t, opens(1, 0), "another subscription of the relay")
}

// awaitReady returns a channel that is closed when another connection can have an index.
func awaitReady(t testing.TB, f *FastPath, i uint32) <-chan struct{} {
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		for t.Context().Err() == nil {
			f.conns.mu.Lock()
			found := slices.Contains(f.conns.ready, i)
			f.conns.mu.Unlock()
			if found {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return ready
}
