package fastpath

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
	"sluice/lab"
	"sluice/moqt"
)

// objectDatagram is an OBJECT_DATAGRAM as package moqt writes it, after a prefix.
func objectDatagram(t testing.TB, prefix []byte, alias uint64, o moqt.ObjectDatagram) []byte {
	o.TrackAlias = alias
	b, err := moqt.AppendDatagramHeader(slices.Clone(prefix), moqt.Versions()[0], &o)
	require.NoError(t, err)
	return append(b, o.Payload...)
}

// TestForwardObjects sends datagrams of every form over every kind of session, and expects user space's datagrams.
func TestForwardObjects(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, webtransport := range []bool{false, true} {
			t.Run(fmt.Sprintf("v6=%v webtransport=%v", v6, webtransport), func(t *testing.T) {
				r := newRig(t, lab.Topology{Subscribers: 3}, v6)
				var prefix []byte
				if webtransport {
					prefix = concat(uint64(70))
				}
				r.SetPublisher(publisherIndex, webtransport, 0)
				r.SetOpenKeys(publisherIndex, 0, r.keys)
				prefixes := [][]byte{nil, concat(uint64(5)), concat(uint64(1 << 40))}
				var list []bpf.Subscription
				for i, s := range r.subscribers {
					r.setDatagramPath(s, prefixes[i], 1<<16)
					sub := r.subscription(s)
					sub.Alias = []uint64{3, 300, 1 << 60}[i]
					list = append(list, sub)
				}
				require.NoError(t, r.SetTrack(5, 99, list))
				want := 0
				for typ := range 16 {
					o := moqt.ObjectDatagram{
						Location: moqt.Location{Group: uint64(typ) << (4 * typ),
							Object: []uint64{0, 1 << 35}[typ>>2&1]}, EndOfGroup: typ&2 != 0,
						DefaultPriority: typ&8 != 0, Payload: bpftest.RandomBytes(1 + 70*typ),
					}
					if !o.DefaultPriority {
						o.Priority = byte(typ * 15)
					}
					if typ&1 != 0 {
						o.Properties = concat(2, 9)
					}
					d := objectDatagram(t, prefix, 77, o)
					frame := append([]byte{0x30}, d...)
					if typ&2 != 0 {
						frame = concat(0x31, uint64(len(d)), d, 1)
					}
					r.publish(frame)
					if o.DefaultPriority {
						o.DefaultPriority, o.Priority = false, 99
					}
					for i, s := range r.subscribers {
						require.Equal(t, objectDatagram(t, prefixes[i], list[i].Alias, o), r.receiveDatagram(s),
							"type %#x", typ)
						want++
						require.EqualValues(t, 1, r.record(s, 1000+uint64(typ)).Info.Load()>>56,
							"a datagram, which is never sent again")
						require.Zero(t, r.kernel.conns[s.index].DataSent)
						require.Zero(t, r.kernel.conns[s.index].Writers)
					}
					r.publish(frame) // the same object in another packet
				}
				require.Equal(t, map[string]uint64{"packet_opened": 32, "frame_forwarded": 16, "frame_claimed": 16,
					"copy_sent": uint64(want)}, r.counts())
			})
		}
	}
}

// setDatagramPath makes a subscriber's session one whose datagrams have a prefix and a limit.
func (r *rig) setDatagramPath(s *subscriber, prefix []byte, limit uint64) {
	at := r.lab.Relay.Facing(r.lab.Subscribers[s.index])
	require.NoError(r.t, r.SetPath(s.index, claim.Path{
		Local: netip.AddrPortFrom(r.address(at), relayPort), Remote: s.conn.LocalAddr().(*net.UDPAddr).AddrPort(),
		DestConnID: s.cid, MaxStreamData: 1 << 40, MaxDatagramFrame: limit,
	}, claim.Session{DatagramPrefix: prefix}))
}

// objectRig is a rig whose track is one of the fast path's, so that objects are claimed from both sides.
func objectRig(t testing.TB, subscribers int) (*rig, *ForwardedTrack) {
	r := newRig(t, lab.Topology{Subscribers: subscribers}, false)
	track := r.fast.NewTrack()
	r.offer(track, true)
	return r, track
}

// offer puts the track on the fast path, for all subscribers in an order.
func (r *rig) offer(track *ForwardedTrack, forward bool) {
	var list []Subscriber
	for _, s := range r.subscribers {
		list = append(list, Subscriber{
			Conn: r.connection(s.index), Alias: 1000 + uint64(s.index),
			Range:   moqt.Range{End: moqt.Location{Group: 1<<64 - 1}},
			Forward: true, Priority: 128,
		})
	}
	if !forward {
		slices.Reverse(list)
	}
	track.Forward(r.connection(publisherIndex), 77, 128, list)
}

// connection returns the connection with an index, as the media sender has it.
func (r *rig) connection(index uint32) *conn {
	if c := r.fast.conns.get(index); c != nil {
		return c
	}
	c := r.fast.connect(index, func(*claim.StreamState) {})
	c.session = &claim.Session{Layout: knownLayout} // without SetSession, which would begin to serve it as raw QUIC
	return c
}

// TestObjectDeclines sets up, for each reason, a datagram that the kernel must leave to user space, which then finds
// that it has to send it.
func TestObjectDeclines(t *testing.T) {
	r, track := objectRig(t, 2)
	state := &r.kernel.conns[1]
	clean := *state
	group := uint64(100)
	// datagram is a DATAGRAM frame of a type, with what follows the Object ID.
	datagram := func(typ int, alias uint64, rest ...any) []byte {
		return concat(0x30, typ, vi64(alias), vi64(group), vi64(1), concat(rest...))
	}
	tests := []struct {
		reason string
		frame  func() []byte // default: an object
		set    func(*bpf.Subscription)
		both   bool // it is declined for the other subscriber too
	}{
		{reason: "frame_no_track", both: true, frame: func() []byte { return datagram(0, 78, 9, "object") }},
		{reason: "frame_not_media", both: true, frame: func() []byte { return datagram(0x20, 77, 9, 3) }}, // a status
		{reason: "frame_not_media", both: true, // no type
			frame: func() []byte { return datagram(0x10, 77, 9, "object") }},
		{reason: "frame_not_media", both: true, // properties that reach beyond it
			frame: func() []byte { return datagram(1, 77, 9, 200, "object") }},
		{reason: "frame_not_media", both: true, // no properties
			frame: func() []byte { return datagram(1, 77, 9, 0, "object") }},
		{reason: "frame_not_media", both: true, frame: func() []byte { return datagram(0, 77) }},    // no priority
		{reason: "frame_not_media", both: true, frame: func() []byte { return datagram(0, 77, 9) }}, // no payload
		{reason: "frame_not_media", both: true, // properties only
			frame: func() []byte { return datagram(1, 77, 9, 2, 0, 1) }},
		{reason: "frame_forgotten", both: true, // see below
			frame: func() []byte { return concat(0x30, 0, vi64(77), vi64(9), vi64(group), 9, "an early object") }},
		{reason: "packet_malformed", both: true, // it reaches beyond the packet
			frame: func() []byte { return concat(0x31, uint64(300), datagram(0, 77, 9, "short")[1:]) }},
		{reason: "copy_filtered", set: func(s *bpf.Subscription) { s.Forward = 0 }},
		{reason: "copy_filtered", set: func(s *bpf.Subscription) { s.StartGroup = group + 1 }},
		{reason: "copy_filtered", set: func(s *bpf.Subscription) { s.StartGroup, s.StartObject = group, 2 }},
		{reason: "copy_filtered", set: func(s *bpf.Subscription) { s.EndGroup = group - 1 }},
		{reason: "copy_no_path", set: func(s *bpf.Subscription) { s.Subscriber = 400 }},
		{reason: "copy_priority", set: func(*bpf.Subscription) { state.Threshold = 128<<8 | 8 }},
		{reason: "copy_window", set: func(*bpf.Subscription) { state.Window = 20 }},
		{reason: "copy_too_large", set: func(*bpf.Subscription) { state.Mtu = 20 }},
		{reason: "copy_too_large", set: func(*bpf.Subscription) { r.setDatagramPath(r.subscribers[1], nil, 12) }},
		{reason: "copy_ledger_full", set: func(*bpf.Subscription) { state.NextPn += claim.LedgerLen }},
	}
	track.raise(moqt.Location{Group: 10, Object: 4})
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			r.t = t
			*state = clean
			r.setDatagramPath(r.subscribers[1], nil, 1<<16)
			list := slices.Clone(track.applied)
			if tt.set != nil {
				tt.set(&list[0].Subscriptions[1])
			}
			require.NoError(t, r.kernel.tracks.put(track.index, list...))
			before, taken := r.counts(), *state
			frame := datagram(0, 77, 9, "object")
			if tt.frame != nil {
				frame = tt.frame()
			}
			r.publish(frame)
			after := r.counts()
			require.Equal(t, before[tt.reason]+1, after[tt.reason], "%v, then %v", before, after)
			require.Equal(t, taken.InFlight, state.InFlight)
			require.Zero(t, state.Writers)
			sent := track.ClaimObject(moqt.Location{Group: group, Object: 1})
			if tt.both {
				require.Empty(t, sent)
				require.Equal(t, before["copy_sent"], after["copy_sent"])
			} else {
				require.Len(t, sent, 1)
				require.EqualValues(t, 1000, sent[0].Alias)
				r.receiveDatagram(r.subscribers[0])
			}
			group++
		})
	}
}

// TestObjectsAreClaimedOnce shows objects to user space and to the kernel, on all CPUs, again and again, in any order,
// while claims are forgotten and the list of subscribers changes: each subscriber gets each object once.
func TestObjectsAreClaimedOnce(t *testing.T) {
	const objects, rounds = 64, 20
	r, track := objectRig(t, 2)
	seed := rand.New(rand.NewPCG(1, 2))
	for round := range uint64(rounds) {
		for i := range r.subscribers {
			state := &r.kernel.conns[i]
			state.LedgerLow, state.InFlight, state.Packets, state.Window = state.NextPn, 0, 0, 1<<30
		}
		begin := monotonic()
		var mu sync.Mutex
		got := make(map[string]int) // how often an object was sent to a subscriber
		handle := func(id uint64) {
			sent := track.ClaimObject(moqt.Location{Group: round, Object: id})
			mu.Lock()
			defer mu.Unlock()
			for i := range r.subscribers {
				if !slices.ContainsFunc(sent, func(o Subscriber) bool { return o.Alias == uint64(1000+i) }) {
					got[fmt.Sprint(i, " ", round, " ", id)]++
				}
			}
		}
		var running sync.WaitGroup
		// The kernel sees each object three times, and the previous round's; user space takes it once.
		for range 3 {
			order := seed.Perm(objects)
			running.Go(func() {
				for _, i := range order {
					r.run(object(round, i))
					r.run(object(max(round, 1)-1, i))
				}
			})
		}
		order := seed.Perm(objects)
		running.Go(func() {
			for _, i := range order {
				handle(uint64(i))
			}
		})
		running.Go(func() {
			for i := range 5 {
				r.offer(track, i%2 == 0)
				r.fast.reclaimer.forgetObjects(begin)
			}
			r.offer(track, true)
		})
		running.Wait()
		for i, s := range r.subscribers {
			for range r.kernel.conns[i].Packets {
				o, err := moqt.ParseObjectDatagram(moqt.Versions()[0], r.receiveDatagram(s))
				require.NoError(t, err)
				got[fmt.Sprint(i, " ", o.Location.Group, " ", o.Location.Object)]++
			}
			require.Zero(t, r.kernel.conns[i].Writers)
			for id := range objects {
				require.Equal(t, 1, got[fmt.Sprint(i, " ", round, " ", id)], "round %d, subscriber %d, object %d",
					round, i, id)
			}
		}
		require.Len(t, got, objects*len(r.subscribers), "nothing of an earlier round")
	}
	counts := r.counts()
	t.Log(counts)
	for _, reason := range []string{"copy_sent", "frame_claimed", "frame_forgotten"} {
		require.NotZero(t, counts[reason], reason)
	}
}

func object(group uint64, id int) []byte {
	return concat(0x30, 0, vi64(77), vi64(group), vi64(uint64(id)), 9, "object")
}

// TestClosedTrack expects that a track gets the index of a closed one only when nothing of the closed one is left.
func TestClosedTrack(t *testing.T) {
	r, track := objectRig(t, 1)
	index := track.index
	r.publish(stream(3, 0, 0, append(subgroupHeader(77, 1, 1, 9), "object"...)))
	r.receive(r.subscribers[0])
	r.publish(object(1, 1))
	r.receiveDatagram(r.subscribers[0])
	track.Close()
	require.Empty(t, track.ClaimObject(moqt.Location{Group: 1, Object: 1}))
	r.fast.reclaimer.freeTracks()
	require.NotContains(t, r.fast.tracks.free, index, "the publisher still sends a subgroup")
	before := r.counts()["copy_sent"]
	r.publish(stream(3, 0, 0, append(subgroupHeader(77, 1, 1, 9), "object"...)))
	r.publish(object(1, 1))
	require.Equal(t, before, r.counts()["copy_sent"])
	publisher := r.connection(publisherIndex)
	track.end(publisher, 3)
	r.fast.reclaimer.freeTracks()
	require.NotContains(t, r.fast.tracks.free, index, "the kernel knows which stream brought the subgroup")
	require.Eventually(t, func() bool {
		publisher.forgetEnded(time.Now())
		r.fast.reclaimer.freeTracks()
		r.fast.tracks.mu.Lock()
		defer r.fast.tracks.mu.Unlock()
		return slices.Contains(r.fast.tracks.free, index)
	}, time.Minute, time.Millisecond)
	require.Empty(t, keysOf(r.ingress.Objects, func(*bpf.ObjectKey, *bpf.ObjectClaim) bool { return true }))
}

// TestManyObjects sends more objects than the kernel remembers: then it sends no more of them, and user space sends
// all.
func TestManyObjects(t *testing.T) {
	r, track := objectRig(t, 1)
	for i := range uint64(r.ingress.Objects.MaxEntries()) {
		require.NoError(t, r.ingress.Objects.Put(bpf.ObjectKey{Group: i, Track: 1 << 20},
			bpf.ObjectClaim{Claimed: monotonic()}))
	}
	r.publish(object(7, 5))
	require.EqualValues(t, 1, r.counts()["frame_no_slot"])
	require.Empty(t, track.ClaimObject(moqt.Location{Group: 7, Object: 5}))
	require.NoError(t, r.ingress.Objects.Delete(bpf.ObjectKey{Group: 1, Track: 1 << 20}))
	require.NoError(t, r.ingress.Objects.Delete(bpf.ObjectKey{Group: 2, Track: 1 << 20}))
	r.publish(object(7, 5)) // once more
	require.EqualValues(t, 1, r.counts()["frame_forgotten"], "%v", r.counts())
	r.publish(object(7, 6))
	r.receiveDatagram(r.subscribers[0])
	require.Len(t, track.ClaimObject(moqt.Location{Group: 7, Object: 6}), 1)
}

// TestLastObject claims the object at the last of all locations: it is never forgotten.
func TestLastObject(t *testing.T) {
	r, track := objectRig(t, 1)
	last := concat(0x30, 0, vi64(77), vi64(1<<64-1), vi64(1<<64-1), 9, "object")
	r.publish(last)
	r.receiveDatagram(r.subscribers[0])
	r.publish(object(1<<64-1, 5))
	r.receiveDatagram(r.subscribers[0])
	r.fast.reclaimer.forgetObjects(monotonic())
	require.Equal(t, moqt.Location{Group: 1<<64 - 1, Object: 6}, track.first)
	r.publish(last)
	r.publish(object(1<<64-1, 5))
	counts := r.counts()
	require.EqualValues(t, 2, counts["copy_sent"])
	require.EqualValues(t, 1, counts["frame_claimed"])
	require.EqualValues(t, 1, counts["frame_forgotten"])
	require.Len(t, track.ClaimObject(lastLocation), 1)
}

// TestPassed expects that the place is known up to which the kernel may have sent objects, also when their claims are
// forgotten.
func TestPassed(t *testing.T) {
	r, track := objectRig(t, 1)
	require.Zero(t, track.Passed())
	r.publish(object(7, 5))
	r.receiveDatagram(r.subscribers[0])
	r.publish(object(7, 3))
	r.receiveDatagram(r.subscribers[0])
	require.Equal(t, moqt.Location{Group: 7, Object: 6}, track.Passed())
	r.fast.reclaimer.forgetObjects(monotonic())
	require.Equal(t, moqt.Location{Group: 7, Object: 6}, track.Passed())
}

// TestStalledKernel claims an object that the kernel has begun to send and never finishes: no subscriber gets it a
// second time.
func TestStalledKernel(t *testing.T) {
	r, track := objectRig(t, 2)
	for id, state := range []uint64{0, uint64(track.version)<<objectVersionShift | 1} { // with and without its list
		claim := bpf.ObjectClaim{State: state, Claimed: monotonic()}
		at := moqt.Location{Group: 1, Object: uint64(id)}
		require.NoError(t, r.ingress.Objects.Put(bpf.ObjectKey{Group: 1, Object: at.Object, Track: track.index}, claim))
		require.Len(t, track.ClaimObject(at), 2)
	}
}
