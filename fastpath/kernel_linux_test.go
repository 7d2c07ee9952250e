package fastpath

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
	"sluice/internal/thorough"
	"sluice/lab"
)

// TestForward forwards a stream. Who has dialed decides on the ids of streams (RFC 9000 §2.1): a peer of either kind
// may publish, and a peer of either kind subscribe. make test has one direction of each topology and IP version.
func TestForward(t *testing.T) {
	const client, server = 2, 3 // the first unidirectional stream of a QUIC client, and of a server
	for _, v6 := range []bool{false, true} {
		for i, topology := range []lab.Topology{
			{Subscribers: 3}, {Subscribers: 3, OneDevice: true}, {Subscribers: 3, SoftwareChecksums: true},
		} {
			for from, to := range map[uint64]uint64{client: server, server: client} {
				t.Run(fmt.Sprintf("v6=%v one=%v software=%v from=%d to=%d", v6, topology.OneDevice,
					topology.SoftwareChecksums, from, to), func(t *testing.T) {
					if (from == client) != (v6 == (i%2 == 0)) {
						thorough.Only(t)
					}
					r := newRig(t, topology, v6)
					r.subscribeAll()
					for _, s := range r.subscribers {
						r.kernel.conns[s.index].NextUni = to
					}
					testForward(t, r, from, to)
				})
			}
		}
	}
}

// TestFamilies has subscribers of both families, whichever the publisher's is. Nobody completes the checksums of their
// copies, which stay on this machine; or the relay's device does; or the publisher has, and the program computes them.
func TestFamilies(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for name, complete := range map[string]func(*lab.Lab) error{
			"nobody":    func(*lab.Lab) error { return nil },
			"device":    func(l *lab.Lab) error { return l.Relay.Facing(l.Subscribers[0]).CompleteChecksums() },
			"publisher": func(l *lab.Lab) error { return l.Publisher.Devices[0].CompleteChecksums() },
		} {
			t.Run(fmt.Sprintf("v6=%v %s", v6, name), func(t *testing.T) {
				r := newRig(t, lab.Topology{Subscribers: 2}, v6)
				require.NoError(t, complete(r.lab))
				r.v6 = !v6
				r.crowd(4)
				r.v6 = v6
				r.subscribeAll()
				testForward(t, r, 2, 3)
			})
		}
	}
}

// testForward publishes on a stream, and expects copies on another.
func testForward(t *testing.T, r *rig, from, to uint64) {
	header := subgroupHeader(77, 300, 2, 9)
	body := bpftest.RandomBytes(2500)
	up := append(slices.Clone(header), body...)
	cuts := []int{0, len(header) + 1, 700, 1900, len(up)}
	for i := 1; i < len(cuts); i++ {
		fin := 0
		if i == len(cuts)-1 {
			fin = 1
		}
		r.publish(stream(from, uint64(cuts[i-1]), fin, up[cuts[i-1]:cuts[i]]))
	}
	for _, s := range r.subscribers {
		want := append(subgroupHeader(1000+uint64(s.index), 300, 2, 9), body...)
		var got []byte
		for i := range len(cuts) - 1 {
			p := r.receive(s)
			require.EqualValues(t, 1000+i, p.number)
			require.Equal(t, to, p.stream)
			require.EqualValues(t, len(got), p.offset)
			require.Equal(t, i == len(cuts)-2, p.fin)
			got = append(got, p.data...)
		}
		require.Equal(t, want, got)
		r.checkLedger(s, 1000, 1000+uint64(len(cuts))-1, len(want))
		require.Equal(t, map[string]uint64{"sent": 4}, r.Copies(s.index))
		require.Equal(t, to+4, r.kernel.conns[s.index].NextUni)
	}
	require.Equal(t, map[string]uint64{"packet_opened": 4, "frame_forwarded": 4,
		"copy_sent": uint64(4 * len(r.subscribers))}, r.counts())
}

// checkLedger expects records that cover all bytes of a stream in order, and counters that agree with them.
func (r *rig) checkLedger(s *subscriber, from, to uint64, size int) {
	t := r.t
	var offset, inFlight uint64
	for pn := from; pn < to; pn++ {
		record := r.record(s, pn)
		require.Equal(t, pn, record.PN.Load())
		require.Equal(t, offset, record.Offset.Load())
		require.NotZero(t, record.Sent.Load())
		info := record.Info.Load()
		length := info >> 32 & 0xffff
		offset += length
		inFlight += length + info>>48&0xff
	}
	state := r.kernel.conns[s.index]
	require.EqualValues(t, size, offset)
	require.EqualValues(t, size, state.DataSent)
	require.Equal(t, inFlight, state.InFlight)
	require.Zero(t, state.Writers)
	require.Equal(t, to, state.NextPn)
}

func TestManyStreamsInOnePacket(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	var frames [][]byte
	for i := range uint64(5) {
		frames = append(frames, stream(3+4*i, 0, 1, append(subgroupHeader(77, i, 5, 1),
			fmt.Sprintf("object %d", i)...)))
	}
	r.publish(frames...)
	for i := range uint64(5) {
		got := r.receive(r.subscribers[0])
		require.Equal(t, 3+4*i, got.stream)
		require.True(t, got.fin)
		require.Equal(t, string(append(subgroupHeader(1000, i, 5, 1), fmt.Sprintf("object %d", i)...)),
			string(got.data))
	}
}

// TestDeclines sets up, for each reason, a packet that the kernel must leave to user space, and checks that nothing is
// sent or taken.
func TestDeclines(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	s := r.subscribers[0]
	state := &r.kernel.conns[s.index]
	clean := *state
	id := uint64(3)
	object := func() []byte { return append(subgroupHeader(77, 10, id, 9), "object"...) }
	tests := []struct {
		reason string
		set    func(*bpf.Subscription)
		send   func()
	}{
		{reason: "frame_no_track", send: func() {
			r.publish(stream(id, 0, 0,
				concat(0x14, vi64(99), vi64(1), vi64(0), 9, "object")))
		}},
		{reason: "frame_empty", send: func() { r.publish(stream(id, 0, 0, nil)) }},
		{reason: "frame_not_media", send: func() { r.publish(stream(id, 0, 0, []byte{5, 1})) }},
		{reason: "frame_not_media", send: func() { r.publish(stream(id, 100, 0, []byte("no beginning"))) }},
		{reason: "copy_filtered", set: func(s *bpf.Subscription) { s.Forward = 0 }},
		{reason: "copy_filtered", set: func(s *bpf.Subscription) { s.StartGroup = 11 }},
		{reason: "copy_filtered", set: func(s *bpf.Subscription) { s.StartGroup, s.StartObject = 10, 1 }},
		{reason: "copy_filtered", set: func(s *bpf.Subscription) { s.EndGroup = 9 }},
		{reason: "copy_no_path", set: func(s *bpf.Subscription) { s.Subscriber = 999 }},
		{reason: "copy_no_neighbor", set: func(*bpf.Subscription) {
			require.NoError(t, r.SetPath(1, claim.Path{Local: netip.MustParseAddrPort("192.0.2.1:1"),
				Remote: netip.MustParseAddrPort("192.0.2.2:2")}, claim.Session{}))
		}, send: func() {
			elsewhere := r.subscription(s)
			elsewhere.Subscriber = 1
			require.NoError(t, r.SetTrack(5, 128, []bpf.Subscription{elsewhere}))
			r.publish(stream(id, 0, 0, object()))
		}},
		{reason: "copy_not_open", set: func(s *bpf.Subscription) { s.Forward = 0 }, send: func() {
			subgroup := object()
			r.publish(stream(id, 0, 0, subgroup))
			require.NoError(t, r.SetTrack(5, 128, []bpf.Subscription{r.subscription(s)}))
			id += 4
			r.publish(stream(id, 0, 0, subgroup)) // which another stream brought first
		}},
		{reason: "copy_priority", set: func(*bpf.Subscription) { state.Threshold = 128<<8 | 8 }},
		{reason: "copy_no_path", set: func(*bpf.Subscription) { state.NextPn |= claim.NumbersClosed }},
		{reason: "copy_stream_share", set: func(*bpf.Subscription) { state.Slots = streamShare }},
		{reason: "copy_stream_limit", set: func(*bpf.Subscription) { state.MaxUni = 0 }},
		{reason: "copy_connection_credit", set: func(*bpf.Subscription) { state.DataLimit = 5 }},
		{reason: "copy_window", set: func(*bpf.Subscription) { state.Window = 20 }},
		{reason: "copy_paced", set: func(*bpf.Subscription) { state.PaceCost, state.PacedAt = 1, 1<<62 }},
		{reason: "copy_paced", set: func(*bpf.Subscription) { state.PaceWaits = 1 }},
		{reason: "copy_bucket", set: func(*bpf.Subscription) { state.BucketCost, state.BucketAt = 1, 1<<62 }},
		{reason: "copy_too_large", set: func(*bpf.Subscription) { state.Mtu = 20 }},
		{reason: "copy_ledger_full", set: func(*bpf.Subscription) { state.NextPn += claim.LedgerLen }},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			r.t = t
			*state = clean
			sub := r.subscription(s)
			if tt.set != nil {
				tt.set(&sub)
			}
			require.NoError(t, r.SetTrack(5, 128, []bpf.Subscription{sub}))
			before, taken := r.counts(), *state
			if tt.send == nil {
				r.publish(stream(id, 0, 0, object()))
			} else {
				tt.send()
			}
			id += 4
			after := r.counts()
			require.Equal(t, before[tt.reason]+1, after[tt.reason], "%v, then %v", before, after)
			require.Equal(t, before["copy_sent"], after["copy_sent"])
			if tt.reason != "copy_no_path" { // the connection has ended
				require.Equal(t, taken.NextUni, state.NextUni, "no id is taken for nothing")
			}
			require.Equal(t, taken.InFlight, state.InFlight)
			require.Equal(t, taken.DataSent, state.DataSent)
			require.Zero(t, state.Writers)
			if tt.reason == "copy_window" || tt.reason == "copy_paced" {
				require.Equal(t, state.NextPn, state.LimitedTo, "the congestion controller learns that it limits")
			} else {
				require.Zero(t, state.LimitedTo)
			}
		})
	}
	require.Equal(t, map[string]uint64{
		"filtered": 5, "not_open": 1, "priority": 1, "no_path": 1, "stream_share": 1, "stream_limit": 1,
		"connection_credit": 1, "window": 1, "paced": 2, "bucket": 1, "too_large": 1, "ledger_full": 1,
	}, r.Copies(s.index))
}

// TestBytesAreClaimedOnce shows the kernel bytes that have been sent already.
func TestBytesAreClaimedOnce(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	s := r.subscribers[0]
	header := subgroupHeader(77, 1, 6, 9)
	up := append(slices.Clone(header), bpftest.RandomBytes(100)...)
	first := stream(3, 0, 0, up[:50])
	r.publish(first)
	require.Len(t, r.receive(s).data, 51) // the alias is one byte longer here
	r.publish(first)                      // a retransmission
	r.publish(stream(3, 60, 0, up[60:]))  // a hole before it
	require.Equal(t, map[string]uint64{"packet_opened": 3, "frame_forwarded": 3, "copy_sent": 1,
		"copy_out_of_order": 2}, r.counts())

	var slot uint32
	require.NoError(t, r.ingress.Downstreams.Lookup(bpf.DownstreamKey{StreamId: 3, Publisher: publisherIndex}, &slot))
	r.streams[slot].Next = 60 // user space has sent up to the hole
	r.publish(stream(3, 60, 0, up[60:]))
	got := r.receive(s)
	require.Equal(t, up[60:], got.data)
	require.EqualValues(t, 61, got.offset)
	r.streams[slot].Next |= 1 << 63 // the stream was reset
	r.publish(stream(3, uint64(len(up)), 0, []byte("more")))
	require.EqualValues(t, 3, r.counts()["copy_out_of_order"])
}

func TestKeyPhases(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	s := r.subscribers[0]
	body := func(id uint64) []byte { return stream(id, 0, 1, append(subgroupHeader(77, id, 0, 9), "object"...)) }

	// The publisher updates its keys; until they are handed over its packets are user space's.
	next := *r.keys
	copy(next.Key[:], bpftest.RandomBytes(32))
	copy(next.IV[:], bpftest.RandomBytes(12))
	r.publishPacket(packet(&next, publisherCID, 0, 2, 1, body(3)))
	require.EqualValues(t, 1, r.counts()["packet_no_key"])
	r.SetOpenKeys(publisherIndex, 1, &next)
	r.publishPacket(packet(&next, publisherCID, 1, 1, 1, body(7)))
	require.Equal(t, 0, r.receive(s).phase)
	r.publishPacket(packet(r.keys, publisherCID, 2, 3, 0, body(11))) // QUIC discards older keys with a higher number
	require.EqualValues(t, 2, r.counts()["packet_no_key"])

	// The subscriber's keys: generation 1 from some packet number on.
	old := *s.keys
	copy(s.keys.Key[:], bpftest.RandomBytes(32))
	copy(s.keys.IV[:], bpftest.RandomBytes(12))
	r.SetSendKeys(s.index, 1, s.keys)
	r.kernel.conns[s.index].NextPn += 1 << 62
	r.publishPacket(packet(&next, publisherCID, 3, 4, 1, body(15)))
	got := r.receive(s)
	require.Equal(t, 1, got.phase)
	require.EqualValues(t, 1001, got.number)
	require.NotEqual(t, old, *s.keys)
}

// TestForgeries sends an attacker's packets: they are counted, and reach user space only.
func TestForgeries(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	good := packet(r.keys, publisherCID, 7, 4, 0, stream(3, 0, 1, append(subgroupHeader(77, 1, 0, 9), "object"...)))
	for range 200 {
		bad := slices.Clone(good)
		bad[1+len(publisherCID)+rand.IntN(len(bad)-1-len(publisherCID))] ^= 1 << rand.IntN(8)
		r.publishPacket(bad)
	}
	counts := r.counts()
	require.EqualValues(t, 200, counts["packet_forged"]+counts["packet_no_key"], "%v", counts)
	require.Zero(t, counts["copy_sent"])

	for n := range good { // truncated
		if n > 0 {
			r.publishPacket(good[:n])
		}
	}
	require.Zero(t, r.counts()["copy_sent"])
	r.publishPacket(packet(r.keys, []byte("stranger"), 8, 4, 0, []byte{1, 0, 0, 0}))
	r.publishPacket(packet(r.keys, publisherCID, 9, 4, 0, concat(0x0e, uint64(3), uint64(0), uint64(5000), "short")))
	require.EqualValues(t, 1, r.counts()["packet_malformed"])
	r.publishPacket(append([]byte{0xc3}, bpftest.RandomBytes(100)...))
	require.EqualValues(t, 1, r.counts()["packet_long_header"])

	r.publishPacket(good)
	r.receive(r.subscribers[0])
	r.publishPacket(good) // replayed
	require.EqualValues(t, 1, r.counts()["copy_sent"])
}

func TestBudget(t *testing.T) {
	const copies = 20
	r := newRigFor(t, lab.Topology{Subscribers: 1}, false, Settings{MaxCopies: copies})
	sub := r.subscription(r.subscribers[0])
	absent := sub
	absent.Subscriber = 900
	require.NoError(t, r.SetTrack(5, 128, append(slices.Repeat([]bpf.Subscription{absent}, copies), sub)))
	r.publish(stream(3, 0, 1, append(subgroupHeader(77, 1, 0, 9), "object"...)))
	require.Equal(t, map[string]uint64{"packet_opened": 1, "frame_forwarded": 1, "copy_no_path": copies,
		"copy_budget": 1}, r.counts())

	// The work for one packet is bounded also when it has many frames.
	require.NoError(t, r.SetTrack(5, 128, slices.Repeat([]bpf.Subscription{sub}, copies)))
	require.NoError(t, r.clearReasons())
	var frames [][]byte
	for i := range 8 {
		o := object(1, i)
		frames = append(frames, concat(0x31, uint64(len(o)-1+100), o[1:], make([]byte, 100)))
	}
	r.publish(frames...)
	counts := r.counts()
	const all, size = 8 * copies, 500 + 110
	require.InDelta(t, copies*2000/size, counts["copy_sent"], 1)
	require.EqualValues(t, all, counts["copy_sent"]+counts["copy_budget"])
	require.Error(t, r.SetTrack(5, 128, make([]bpf.Subscription, MaxSubscriptions+1)))
}

const longList = 2*int(partLen) + 8 // more than parts hold, and more than get objects in datagrams

// TestLongList expects all subscribers of a long list to get the data of a stream.
func TestLongList(t *testing.T) {
	r := newRigFor(t, lab.Topology{Subscribers: 2}, false, Settings{MaxCopies: MaxSubscriptions})
	r.crowd(longList)
	r.subscribeAll()
	r.publish(stream(3, 0, 1, append(subgroupHeader(77, 1, 0, 9), "object"...)))
	for _, s := range r.subscribers {
		got := r.receive(s)
		require.True(t, got.fin)
		require.Equal(t, concat(0x10, vi64(1000+uint64(s.index)), vi64(1), 9, "object"), got.data)
	}
	require.Equal(t, map[string]uint64{"packet_opened": 1, "frame_forwarded": 1, "copy_sent": uint64(longList)},
		r.counts())
}

// TestLongListObjects expects the first subscribers of a long list to get the object of a datagram.
func TestLongListObjects(t *testing.T) {
	r := newRigFor(t, lab.Topology{Subscribers: 2}, false, Settings{MaxCopies: MaxSubscriptions})
	r.crowd(longList)
	r.subscribeAll()
	r.publish(object(2, 0))
	for _, s := range r.subscribers[:MaxObjectCopies] {
		require.Equal(t, concat(0x04, vi64(1000+uint64(s.index)), vi64(2), 9), r.receiveDatagram(s)[:len(vi64(1000))+3])
	}
	require.Equal(t, map[string]uint64{
		"packet_opened": 1, "frame_forwarded": 1, "copy_sent": MaxObjectCopies, "copy_budget": 1,
	}, r.counts())
}

// TestReasonNames expects a label for each counter of the programs, a description in the documentation, and a panel of
// the dashboard.
func TestReasonNames(t *testing.T) {
	k, err := load(Settings{Port: relayPort})
	bpftest.RequireKernel(t, err)
	defer k.Close()
	require.Len(t, k.reasons, int(k.ingress.Reasons.MaxEntries()))
	page, err := os.ReadFile("../docs/fastpath.md")
	require.NoError(t, err)
	dashboard, err := os.ReadFile("../dist/grafana/sluice.json")
	require.NoError(t, err)
	var shown []string
	for _, m := range regexp.MustCompile(`reason=~\\"([^"\\]+)`).FindAllStringSubmatch(string(dashboard), -1) {
		shown = append(shown, m[1])
	}
	for _, name := range k.reasons {
		require.Regexp(t, "^("+strings.Join(shown, "|")+")$", name)
		require.Contains(t, string(page), "`"+name+"`")
	}
}

func TestSettings(t *testing.T) {
	for want, s := range map[string]Settings{
		"fast path: Port: 0: must be between 1 and 65535":                {},
		"fast path: ConnectionIDLen: 21: must be between 0 and 20":       {Port: 1, ConnectionIDLen: 21},
		"fast path: ConnectionIDLen: -1: must be between 0 and 20":       {Port: 1, ConnectionIDLen: -1},
		"fast path: MaxCopies: 513: must be between 1 and 512":           {Port: 1, MaxCopies: 513},
		"fast path: Workers: 65: must be between 0 and 64":               {Port: 1, Workers: 65},
		"fast path: MaxCopies: -1: must be between 1 and 512":            {Port: 1, MaxCopies: -1},
		"fast path: MaxConnections: -1: must be between 1 and 65536":     {Port: 1, MaxConnections: -1},
		"fast path: MaxTracks: 1048577: must be between 1 and 1048576":   {Port: 1, MaxTracks: 1<<20 + 1},
		"fast path: MaxSubgroups: 63: must be between 64 and 1048576":    {Port: 1, MaxSubgroups: 63},
		"fast path: MaxObjects: 4194305: must be between 64 and 4194304": {Port: 1, MaxObjects: 1<<22 + 1},
	} {
		_, err := load(s)
		require.EqualError(t, err, want)
	}
}

// TestMaxTracks makes as many tracks as there may be, and one more, which is never on the fast path.
func TestMaxTracks(t *testing.T) {
	r := newRigFor(t, lab.Topology{}, false, Settings{MaxTracks: 3})
	for range 3 {
		defer r.fast.NewTrack().Close()
	}
	require.Nil(t, r.fast.NewTrack())
}
