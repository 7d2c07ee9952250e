package fastpath

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
	"sluice/lab"
)

// TestGrowing makes connections and tracks up to the limits, which are beyond the first memory.
func TestGrowing(t *testing.T) {
	connections, tracks := 8*int(extentLen(64))+8, int(extentLen(8))+9
	limit := connections + 2*reserve // so many may be about to get their ledgers
	var logged bytes.Buffer
	settings := Settings{Port: relayPort, MaxConnections: limit, MaxTracks: tracks}
	f, err := New(settings, slog.New(slog.NewTextHandler(&logged, nil)))
	bpftest.RequireKernel(t, err)
	defer f.Close()
	require.Equal(t, extentLen(8), madeOfAll(f.kernel.byTrack))

	type connection struct {
		claim.ForwarderConn
		*claim.ConnState
	}
	connect := func() (c connection) {
		c.ForwarderConn, c.ConnState = f.Connect(func(*claim.StreamState) {})
		return c
	}
	conns := make([]connection, connections)
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() { conns[i] = connect() })
	}
	all.Wait()
	require.False(t, slices.Contains(conns, connection{}))
	require.Eventually(t, func() bool {
		c := connect()
		if c.ConnState != nil {
			conns = append(conns, c)
		}
		return c.ConnState == nil && len(conns) == limit
	}, time.Minute, time.Millisecond)
	require.Contains(t, logged.String(), "the fast path has no place for more connections")
	for i, c := range conns {
		c.Bytes.Store(uint64(i))
	}
	seen := make(map[uint32]bool)
	for i, s := range conns {
		require.EqualValues(t, i, s.Bytes.Load(), "a state of its own")
		c := s.ForwarderConn.(*conn)
		require.Equal(t, f.kernel.conns[c.index].Bytes, uint64(i))
		for _, g := range f.kernel.byConn {
			require.Less(t, c.index, g.made())
		}
		seen[c.index] = true
	}
	require.Len(t, seen, limit)

	for i := range tracks {
		track := f.NewTrack()
		require.NotNil(t, track, i)
		require.NoError(t, f.kernel.tracks.put(track.index, bpf.Track{Alias: uint64(i)}))
	}
	require.Nil(t, f.NewTrack(), "beyond the limit")
	require.Equal(t, 2*extentLen(8), madeOfAll(f.kernel.byTrack))
}

// TestNoMemoryToGrow makes the kernel refuse memory. Everything that has memory goes on, the rest is left to user
// space, and one line says so. Later there is memory.
func TestNoMemoryToGrow(t *testing.T) {
	said := new(bytes.Buffer)
	f, err := New(Settings{Port: relayPort, MaxTracks: 3 * int(extentLen(8))}, slog.New(slog.NewTextHandler(said, nil)))
	bpftest.RequireKernel(t, err)
	defer f.Close()
	versions := f.kernel.byTrack[0]
	f.tracks.room.Lock()
	flags := versions.inner.Flags
	versions.inner.Flags |= unix.BPF_F_RDONLY_PROG // another type of map than the programs expect
	f.tracks.room.Unlock()
	var tracks []*ForwardedTrack
	for range extentLen(8) {
		tracks = append(tracks, f.NewTrack())
	}
	require.False(t, slices.Contains(tracks, nil))
	for range 10 {
		require.Nil(t, f.NewTrack())
	}
	f.tracks.room.Lock()
	require.Equal(t, 1, strings.Count(said.String(), "provide memory for tracks"), said)
	require.Equal(t, extentLen(8), versions.made())
	versions.inner.Flags = flags
	f.tracks.room.Unlock()
	late := f.NewTrack()
	require.NotNil(t, late)
	require.GreaterOrEqual(t, late.index, extentLen(8))
	require.NoError(t, f.kernel.tracks.put(late.index, bpf.Track{Alias: 1}))
}

// TestStreamsGrow opens more streams than there is memory for, while the kernel forwards. It leaves streams without
// memory to user space, and forwards streams that begin later.
func TestStreamsGrow(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 3}, false)
	r.crowd(firstStreams/200 + 1)
	n := len(r.subscribers)
	r.subscribeAll()
	for _, s := range r.subscribers {
		r.kernel.conns[s.index].MaxUni = 1 << 20
		r.connection(s.index)
	}
	body := bpftest.RandomBytes(50)
	forward := func(i, copies int) {
		t.Helper()
		header := subgroupHeader(77, uint64(i), 2, 9)
		r.publish(stream(uint64(4*i+3), 0, 1, slices.Concat(header, body)))
		for _, s := range r.subscribers[:copies] {
			p := r.receive(s)
			require.Equal(t, slices.Concat(subgroupHeader(1000+uint64(s.index), uint64(i), 2, 9), body), p.data)
		}
	}
	stopReclaimer(t, r.fast) // no memory is made meanwhile
	full := firstStreams / n
	for i := range full {
		forward(i, n)
	}
	forward(full, firstStreams%n)
	require.EqualValues(t, n-firstStreams%n, r.counts()["copy_no_slot"])
	r.fast.reclaimer.provideStreams()
	for i := full + 1; i < full+30; i++ {
		forward(i, n)
	}
	require.EqualValues(t, n-firstStreams%n, r.counts()["copy_no_slot"])
	require.Greater(t, madeOfAll(r.byStream), uint32(firstStreams))
}

// TestStreamsHaveALimit makes as many slots as are allowed, and no more.
func TestStreamsHaveALimit(t *testing.T) {
	f, err := New(Settings{Port: relayPort, MaxConnections: 20}, slog.New(slog.DiscardHandler))
	bpftest.RequireKernel(t, err)
	defer f.Close()
	limit := uint32(20 * bpf.IngressCapacitySTREAMS_PER_CONNECTION)
	require.NoError(t, f.kernel.growStreams(1<<30))
	seen := make(map[uint32]bool)
	for slot := uint32(0); f.kernel.ingress.FreeStreams.LookupAndDelete(nil, &slot) == nil; {
		require.Less(t, slot, limit)
		seen[slot] = true
		f.streams[slot].ID.Store(uint64(slot))
	}
	require.Len(t, seen, int(limit))
}

// TestNothingGrowsAfterTheEnd asks for more while the fast path ends.
func TestNothingGrowsAfterTheEnd(t *testing.T) {
	f, err := New(Settings{Port: relayPort}, slog.New(slog.DiscardHandler))
	bpftest.RequireKernel(t, err)
	defer f.Close()
	f.conns.close()
	f.tracks.close()
	c, _ := f.Connect(func(*claim.StreamState) {})
	require.Nil(t, c)
	require.Nil(t, f.NewTrack())
}
