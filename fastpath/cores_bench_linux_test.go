package fastpath

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go/quicvarint"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	packets "sluice/internal/packet"
	"sluice/lab"
)

// BenchmarkCores measures how many packets of a publisher one core can forward: it runs server_ingress by BPF_PROG_RUN,
// on one thread and on more. Each thread has a publisher, whose packets have the largest size, and subscribers of its
// own; an operation is a packet of each. The work of the links and hosts of the lab comes after a run, and does not
// count. With tracks=1000, each packet is of another track than the packet before, and of other subscribers.
func BenchmarkCores(b *testing.B) {
	if packets.Unprotected {
		b.Skip("there is nothing to seal")
	}
	for _, c := range []struct{ copies, tracks int }{{20, 1}, {64, 1}, {5, 1000}} {
		for threads := 1; threads <= runtime.NumCPU(); threads *= 2 {
			b.Run(fmt.Sprintf("copies=%d/tracks=%d/threads=%d", c.copies, c.tracks, threads), func(b *testing.B) {
				benchmarkCores(b, threads, c.copies, c.tracks)
			})
		}
	}
}

// mostTracks is how many tracks a subscriber of the benchmark has: fewer than it may have streams.
const mostTracks = 50

func benchmarkCores(b *testing.B, threads, copies, tracks int) {
	each := copies * ((tracks + mostTracks - 1) / mostTracks) // subscribers
	last := publisherIndex + threads*(each+1)
	r := newRigFor(b, lab.Topology{Subscribers: 20}, false, Settings{MaxCopies: copies, MaxConnections: last + 1})
	r.crowd(threads * each)
	require.NoError(b, growAll(r.byTrack, uint32(threads*tracks)))
	require.NoError(b, r.growStreams(uint32(threads*tracks*copies)))
	var ahead sync.WaitGroup
	for _, s := range r.subscribers {
		state := &r.kernel.conns[s.index]
		state.Mtu, state.MaxUni, state.DataLimit = 1452, 1<<20, 1<<40 // see benchmarkForward
		ahead.Go(func() { r.lookAhead(s) })
	}
	ahead.Wait()
	var lanes []*lane
	for i := range threads {
		l := &lane{rig: r, index: uint32(last - i), keys: randomPacketKeys(), next: 1}
		l.cid = fmt.Appendf(nil, "lane%04d", i) // as long as publisherCID
		r.addPublisher(l.index, l.cid, l.keys)
		l.conn = r.openAheadOf(l.index, l.keys, l.next)
		for t := range tracks {
			first := i*each + t/mostTracks*copies
			l.addTrack(uint32(i*tracks+t), r.subscribers[first:first+copies])
		}
		lanes = append(lanes, l)
	}
	b.ResetTimer()
	var running sync.WaitGroup
	for _, l := range lanes {
		running.Go(func() { l.err = r.lab.Relay.Do(func() error { return l.publishAll(b.N) }) })
	}
	running.Wait()
	b.StopTimer()
	var runs []time.Duration
	for _, l := range lanes {
		require.NoError(b, l.err)
		runs = append(runs, l.runs...)
	}
	slices.Sort(runs)
	median := runs[len(runs)/2]
	b.ReportMetric(float64(median.Nanoseconds()), "p50_bpf_ns/op")
	b.ReportMetric(float64(runs[len(runs)*99/100].Nanoseconds()), "p99_bpf_ns/op")
	b.ReportMetric(float64(time.Second)/float64(median), "packets/s/core")
	counts, err := r.Counts()
	require.NoError(b, err)
	b.ReportMetric(float64(counts["copy_sent"])/float64(threads*copies*(b.N+tracks)), "sent/offered")
	b.ReportMetric(float64(counts["seal_ahead"])/float64(counts["copy_sent"]), "ahead/sent")
}

// lane is a publisher, and one thread that runs the program on its packets.
type lane struct {
	*rig
	index  uint32
	cid    []byte
	keys   *claim.PacketKeys
	conn   *conn
	tracks []laneTrack
	next   uint64 // packet number
	runs   []time.Duration
	err    error
}

// laneTrack is a track with one stream.
type laneTrack struct {
	subscribers []*subscriber
	offset      uint64
}

// addTrack adds a track, and opens its stream.
func (l *lane) addTrack(index uint32, subscribers []*subscriber) {
	alias := uint64(len(l.tracks))
	var all []bpf.Subscription
	for _, s := range subscribers {
		v := l.subscription(s)
		v.Alias = alias
		all = append(all, v)
	}
	track := bpf.Track{DefaultPriority: 128, Publisher: l.index, Alias: alias}
	require.NoError(l.t, l.rig.kernel.tracks.put(index, trackValue(track, all)...))
	require.NoError(l.t, l.SetAlias(l.index, alias, index))
	l.tracks = append(l.tracks, laneTrack{subscribers: subscribers})
	require.NoError(l.t, l.lab.Relay.Do(func() error {
		return l.publish(int(alias), subgroupHeader(alias, 1, 1, 9))
	}))
}

// publishAll publishes n packets of the largest size, of the tracks in turn.
func (l *lane) publishAll(n int) error {
	body := make([]byte, MaxUDPPayloadSize-36)
	l.runs = make([]time.Duration, 0, n)
	for i := range n {
		t := i % len(l.tracks)
		rest := len(body) - quicvarint.Len(l.tracks[t].offset) - quicvarint.Len(laneStream(t))
		if err := l.publish(t, body[:rest]); err != nil {
			return err
		}
	}
	return nil
}

func laneStream(track int) uint64 { return uint64(4*track + 3) }

// publish runs the program on a packet with the next bytes of the stream of a track. The subscribers acknowledge it.
func (l *lane) publish(track int, data []byte) error {
	t := &l.tracks[track]
	l.conn.Received(int64(l.next) - 1)
	p := packet(l.keys, l.cid, l.next, 4, 0, stream(laneStream(track), t.offset, 0, data))
	l.next, t.offset = l.next+1, t.offset+uint64(len(data))
	frame := concat(make([]byte, 12), udpFrame(l.publisherAddr(), l.relayAddr(), p))
	_, took, err := l.ingress.ServerIngress.Benchmark(frame, 1, nil)
	l.runs = append(l.runs, took)
	for _, s := range t.subscribers {
		state := &l.rig.kernel.conns[s.index]
		state.InFlight, state.LedgerLow = 0, state.NextPn
		l.connection(s.index).Acknowledged()
	}
	return err
}
