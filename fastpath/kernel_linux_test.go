package fastpath

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/sys/unix"

	"sluice/lab"
	"sluice/lab/labtest"
)

const relayPort = 4443

// headerMask is the header protection mask of a sample (RFC 9001 §5.4.4).
func headerMask(k *PacketKeys, sample []byte) (mask [5]byte) {
	c, err := chacha20.NewUnauthenticatedCipher(k.HeaderProtection[:], sample[4:16])
	if err != nil {
		panic(err)
	}
	c.SetCounter(binary.LittleEndian.Uint32(sample))
	c.XORKeyStream(mask[:], mask[:])
	return mask
}

func aead(k *PacketKeys, pn uint64) (sealer interface {
	Seal(dst, nonce, plaintext, aad []byte) []byte
	Open(dst, nonce, ciphertext, aad []byte) ([]byte, error)
}, nonce []byte) {
	a, err := chacha20poly1305.New(k.Key[:])
	if err != nil {
		panic(err)
	}
	nonce = slices.Clone(k.IV[:])
	for i := range 8 {
		nonce[11-i] ^= byte(pn >> (8 * i))
	}
	return a, nonce
}

// packet is a short header packet.
func packet(k *PacketKeys, cid []byte, pn uint64, pnLen, phase int, payload []byte) []byte {
	p := append([]byte{0x40 | byte(phase<<2) | byte(pnLen-1)}, cid...)
	p = append(p, binary.BigEndian.AppendUint64(nil, pn)[8-pnLen:]...)
	a, nonce := aead(k, pn)
	n := len(p)
	p = a.Seal(p, nonce, payload, p[:n:n])
	at := 1 + len(cid)
	mask := headerMask(k, p[at+4:])
	p[0] ^= mask[0] & 0x1f
	for i := range pnLen {
		p[at+i] ^= mask[1+i]
	}
	return p
}

// received is a packet of the kernel's, opened by the subscriber.
type received struct {
	number         uint64
	phase          int
	stream, offset uint64
	fin            bool
	data           []byte
}

// open opens a packet with a four-byte number and one STREAM frame that extends to its end.
func open(t testing.TB, k *PacketKeys, cid, p []byte) received {
	t.Helper()
	p = slices.Clone(p)
	at := 1 + len(cid)
	require.GreaterOrEqual(t, len(p), at+4+16+1)
	require.Equal(t, cid, append([]byte{}, p[1:at]...))
	mask := headerMask(k, p[at+4:])
	p[0] ^= mask[0] & 0x1f
	for i := range 4 {
		p[at+i] ^= mask[1+i]
	}
	require.EqualValues(t, 0x43, p[0]&^4, "short header, fixed bit, no spin, reserved bits zero, four bytes of number")
	r := received{number: uint64(binary.BigEndian.Uint32(p[at:])), phase: int(p[0] >> 2 & 1)}
	a, nonce := aead(k, r.number)
	payload, err := a.Open(nil, nonce, p[at+4:], p[:at+4])
	require.NoError(t, err)

	require.EqualValues(t, 0x08, payload[0]&^5, "a STREAM frame without a length")
	typ, rest := payload[0], payload[1:]
	r.fin = typ&1 != 0
	varint := func() uint64 {
		v, n, err := quicvarint.Parse(rest)
		require.NoError(t, err)
		rest = rest[n:]
		return v
	}
	r.stream = varint()
	if typ&4 != 0 {
		r.offset = varint()
	}
	r.data = rest
	return r
}

func randomPacketKeys() *PacketKeys {
	k := new(PacketKeys)
	copy(k.Key[:], randomBytes(32))
	copy(k.HeaderProtection[:], randomBytes(32))
	copy(k.IV[:], randomBytes(12))
	return k
}

// upstreamCID is the connection ID that the publisher addresses the relay with.
var upstreamCID = []byte("12345678")

// subscriber is a host that receives what the kernel sends.
type subscriber struct {
	index uint32
	conn  *net.UDPConn
	keys  *PacketKeys
	cid   []byte
}

// rig is a publisher, a relay with the programs attached, and subscribers.
type rig struct {
	*Kernel
	t           *testing.T
	lab         *lab.Lab
	v6          bool
	keys        *PacketKeys // of the publisher's packets
	publisher   *net.UDPConn
	relay       *net.UDPConn
	subscribers []*subscriber
	nextPN      uint64
}

func newRig(t *testing.T, topology lab.Topology, v6 bool) *rig {
	t.Helper()
	r := &rig{t: t, lab: labtest.New(t, topology), v6: v6, keys: randomPacketKeys()}
	var err error
	r.Kernel, err = Load(Settings{Port: relayPort, ConnectionIDLen: len(upstreamCID)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	require.NoError(t, r.lab.Relay.Do(func() error {
		for _, d := range r.lab.Relay.Devices {
			if err := r.Attach(r.index(d)); err != nil {
				return err
			}
		}
		return nil
	}))
	r.relay, err = r.lab.Relay.ListenUDP(netip.AddrPortFrom(netip.IPv6Unspecified(), relayPort))
	require.NoError(t, err)
	r.publisher, err = r.lab.Publisher.ListenUDP(netip.AddrPort{})
	require.NoError(t, err)
	r.SetUpstream(0, false, 0)
	r.SetOpenKeys(0, 0, r.keys)
	require.NoError(t, r.AddConnectionID(upstreamCID, 0))
	require.NoError(t, r.SetAlias(0, 77, 5))
	for i, h := range r.lab.Subscribers {
		r.addSubscriber(uint32(i), h)
	}
	return r
}

// index is a device's in the relay's namespace.
func (r *rig) index(d *lab.Device) int {
	i, err := net.InterfaceByName(d.Name)
	require.NoError(r.t, err)
	return i.Index
}

func (r *rig) address(d *lab.Device) netip.Addr {
	if r.v6 {
		return d.IPv6.Addr()
	}
	return d.IPv4.Addr()
}

func (r *rig) addSubscriber(index uint32, h *lab.Host) {
	t := r.t
	near, far := r.lab.Relay.Facing(h), h.Devices[0]
	s := &subscriber{index: index, keys: randomPacketKeys(), cid: randomBytes(int(index) * 4 % 21)}
	var err error
	s.conn, err = h.ListenUDP(netip.AddrPortFrom(r.address(far), 9000))
	require.NoError(t, err)
	require.NoError(t, r.SetPath(index, Path{
		Local:  netip.AddrPortFrom(r.address(near), relayPort),
		Remote: netip.AddrPortFrom(r.address(far), 9000), ConnectionID: s.cid, InitialMaxStream: 1 << 20,
	}))
	r.SetSendKeys(index, 0, s.keys)
	state := &r.Kernel.subscribers[index]
	state.Window, state.DataLimit, state.MaxUni = 1<<20, 1<<20, 100
	state.NextUni, state.Threshold, state.Mtu, state.NextPn = 3, 0xffff, 1400, 1000
	r.subscribers = append(r.subscribers, s)
	r.greet(s)
}

// greet has the relay's stack send something to a subscriber: the programs learn from it where the subscriber is.
func (r *rig) greet(s *subscriber) {
	_, err := r.relay.WriteTo([]byte("handshake"), s.conn.LocalAddr())
	require.NoError(r.t, err)
	require.NoError(r.t, s.conn.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, _, err = s.conn.ReadFromUDPAddrPort(make([]byte, 100))
	require.NoError(r.t, err)
}

func (r *rig) subscription(s *subscriber) Subscription {
	return Subscription{Subscriber: s.index, Alias: 1000 + uint64(s.index), EndGroup: 1<<64 - 1, Forward: true, Priority: 128}
}

func (r *rig) subscribeAll() {
	var all []Subscription
	for _, s := range r.subscribers {
		all = append(all, r.subscription(s))
	}
	require.NoError(r.t, r.SetTrack(5, 128, all))
}

// publish sends frames in one packet, and waits until the relay's socket has it.
func (r *rig) publish(frames ...[]byte) {
	r.t.Helper()
	r.publishPacket(packet(r.keys, upstreamCID, r.nextPN, 4, 0, slices.Concat(frames...)))
	r.nextPN++
}

// publishPacket expects the packet to reach user space as it was sent.
func (r *rig) publishPacket(p []byte) {
	r.t.Helper()
	to := netip.AddrPortFrom(r.address(r.lab.Relay.Facing(r.lab.Publisher)), relayPort)
	_, err := r.publisher.WriteToUDPAddrPort(p, to)
	require.NoError(r.t, err)
	buffer := make([]byte, 2000)
	require.NoError(r.t, r.relay.SetReadDeadline(time.Now().Add(5*time.Second)))
	n, _, err := r.relay.ReadFromUDPAddrPort(buffer)
	require.NoError(r.t, err)
	require.Equal(r.t, p, buffer[:n], "user space gets the packet as it was sent")
}

// receive reads one packet of a subscriber's. The stack has verified the checksums.
func (r *rig) receive(s *subscriber) received {
	r.t.Helper()
	buffer := make([]byte, 2000)
	require.NoError(r.t, s.conn.SetReadDeadline(time.Now().Add(5*time.Second)))
	n, from, err := s.conn.ReadFromUDPAddrPort(buffer)
	require.NoError(r.t, err, "%v", r.counts())
	require.EqualValues(r.t, relayPort, from.Port())
	return open(r.t, s.keys, s.cid, buffer[:n])
}

// counts lists the reasons that were counted, apart from packets that have nothing to do with media.
func (r *rig) counts() map[string]uint64 {
	r.t.Helper()
	counts, err := r.Counts()
	require.NoError(r.t, err)
	maps.DeleteFunc(counts, func(name string, n uint64) bool { return n == 0 || name == "packet_not_media" })
	return counts
}

// subgroupHeader is a SUBGROUP_HEADER with Subgroup ID and priority.
func subgroupHeader(alias, group, subgroup uint64, priority int) []byte {
	return concat(0x14, vi64(alias), vi64(group), vi64(subgroup), priority)
}

func TestForward(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, topology := range []lab.Topology{
			{Subscribers: 3}, {Subscribers: 3, OneDevice: true}, {Subscribers: 3, SoftwareChecksums: true},
		} {
			t.Run(fmt.Sprintf("v6=%v one=%v software=%v", v6, topology.OneDevice, topology.SoftwareChecksums), func(t *testing.T) {
				r := newRig(t, topology, v6)
				r.subscribeAll()
				header := subgroupHeader(77, 300, 2, 9)
				body := randomBytes(2500)
				up := append(slices.Clone(header), body...)
				cuts := []int{0, len(header) + 1, 700, 1900, len(up)}
				for i := 1; i < len(cuts); i++ {
					fin := 0
					if i == len(cuts)-1 {
						fin = 1
					}
					r.publish(stream(3, uint64(cuts[i-1]), fin, up[cuts[i-1]:cuts[i]]))
				}
				for _, s := range r.subscribers {
					want := append(subgroupHeader(1000+uint64(s.index), 300, 2, 9), body...)
					var got []byte
					for i := range len(cuts) - 1 {
						p := r.receive(s)
						require.EqualValues(t, 1000+i, p.number)
						require.EqualValues(t, 3, p.stream)
						require.EqualValues(t, len(got), p.offset)
						require.Equal(t, i == len(cuts)-2, p.fin)
						got = append(got, p.data...)
					}
					require.Equal(t, want, got)
					r.checkLedger(s, 1000, 1000+uint64(len(cuts))-1, len(want))
				}
				require.Equal(t, map[string]uint64{"packet_opened": 4, "frame_forwarded": 4, "copy_sent": 12}, r.counts())
			})
		}
	}
}

// checkLedger expects records that cover all bytes of a stream in order, and counters that agree with them.
func (r *rig) checkLedger(s *subscriber, from, to uint64, size int) {
	t := r.t
	var offset, inFlight uint64
	for pn := from; pn < to; pn++ {
		record := r.ledgers[uint64(s.index)*ledgerLen+pn%ledgerLen]
		require.Equal(t, pn, record.Pn)
		require.Equal(t, offset, record.Offset)
		require.NotZero(t, record.Sent)
		length := record.Info >> 32 & 0xffff
		offset += length
		inFlight += length + record.Info>>48&0xff
	}
	state := r.Kernel.subscribers[s.index]
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
		frames = append(frames, stream(3+4*i, 0, 1, append(subgroupHeader(77, i, 5, 1), fmt.Sprintf("object %d", i)...)))
	}
	r.publish(frames...)
	for i := range uint64(5) {
		got := r.receive(r.subscribers[0])
		require.Equal(t, 3+4*i, got.stream)
		require.True(t, got.fin)
		require.Equal(t, string(append(subgroupHeader(1000, i, 5, 1), fmt.Sprintf("object %d", i)...)), string(got.data))
	}
}

// TestDeclines sets up, for each reason, a packet that the kernel must leave to user space, and checks that nothing is
// sent or taken.
func TestDeclines(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	s := r.subscribers[0]
	state := &r.Kernel.subscribers[s.index]
	clean := *state
	header := subgroupHeader(77, 10, 0, 9)
	object := append(slices.Clone(header), "object"...)
	id := uint64(3)
	tests := []struct {
		reason string
		set    func(*Subscription)
		send   func()
	}{
		{reason: "frame_no_track", send: func() { r.publish(stream(id, 0, 0, concat(0x14, vi64(99), vi64(1), vi64(0), 9, "object"))) }},
		{reason: "frame_not_media", send: func() { r.publish(stream(id, 0, 0, []byte{5, 1})) }},
		{reason: "frame_not_media", send: func() { r.publish(stream(id, 100, 0, []byte("no beginning"))) }},
		{reason: "frame_is_datagram", send: func() { r.publish(concat(0x30, 0, vi64(77), "datagram")) }},
		{reason: "copy_filtered", set: func(s *Subscription) { s.Forward = false }},
		{reason: "copy_filtered", set: func(s *Subscription) { s.StartGroup = 11 }},
		{reason: "copy_filtered", set: func(s *Subscription) { s.StartGroup, s.StartObject = 10, 1 }},
		{reason: "copy_filtered", set: func(s *Subscription) { s.EndGroup = 9 }},
		{reason: "copy_no_path", set: func(s *Subscription) { s.Subscriber = 999 }},
		{reason: "copy_no_neighbor", set: func(*Subscription) {
			require.NoError(t, r.SetPath(1, Path{Local: netip.MustParseAddrPort("192.0.2.1:1"), Remote: netip.MustParseAddrPort("192.0.2.2:2")}))
		}, send: func() {
			elsewhere := r.subscription(s)
			elsewhere.Subscriber = 1
			require.NoError(t, r.SetTrack(5, 128, []Subscription{elsewhere}))
			r.publish(stream(id, 0, 0, object))
		}},
		{reason: "copy_priority", set: func(*Subscription) { state.Threshold = 128<<8 | 8 }},
		{reason: "copy_stream_limit", set: func(*Subscription) { state.MaxUni = 0 }},
		{reason: "copy_connection_credit", set: func(*Subscription) { state.DataLimit = 5 }},
		{reason: "copy_window", set: func(*Subscription) { state.Window = 20 }},
		{reason: "copy_too_large", set: func(*Subscription) { state.Mtu = 20 }},
		{reason: "copy_ledger_full", set: func(*Subscription) { state.NextPn += ledgerLen }},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			r.t = t
			*state = clean
			sub := r.subscription(s)
			if tt.set != nil {
				tt.set(&sub)
			}
			require.NoError(t, r.SetTrack(5, 128, []Subscription{sub}))
			before, taken := r.counts(), *state
			if tt.send == nil {
				r.publish(stream(id, 0, 0, object))
			} else {
				tt.send()
			}
			id += 4
			after := r.counts()
			require.Equal(t, before[tt.reason]+1, after[tt.reason], "%v, then %v", before, after)
			require.Equal(t, before["copy_sent"], after["copy_sent"])
			taken.NextUni = state.NextUni // an id that was taken is kept for user space
			require.Equal(t, taken.InFlight, state.InFlight)
			require.Equal(t, taken.DataSent, state.DataSent)
			require.Zero(t, state.Writers)
		})
	}
}

// TestBytesAreClaimedOnce has the kernel meet what somebody else has sent already.
func TestBytesAreClaimedOnce(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	s := r.subscribers[0]
	header := subgroupHeader(77, 1, 6, 9)
	up := append(slices.Clone(header), randomBytes(100)...)
	first := stream(3, 0, 0, up[:50])
	r.publish(first)
	require.Len(t, r.receive(s).data, 51) // the alias is one byte longer here
	r.publish(first)                      // a retransmission
	r.publish(stream(3, 60, 0, up[60:]))  // a hole before it
	require.Equal(t, map[string]uint64{"packet_opened": 3, "frame_forwarded": 3, "copy_sent": 1, "copy_out_of_order": 2}, r.counts())

	var slot uint32
	require.NoError(t, r.ingress.Downstreams.Lookup(kernelDownstreamKey{StreamId: 3}, &slot))
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
	copy(next.Key[:], randomBytes(32))
	copy(next.IV[:], randomBytes(12))
	r.publishPacket(packet(&next, upstreamCID, 0, 2, 1, body(3)))
	require.EqualValues(t, 1, r.counts()["packet_no_key"])
	r.SetOpenKeys(0, 1, &next)
	r.publishPacket(packet(&next, upstreamCID, 1, 1, 1, body(7)))
	require.Equal(t, 0, r.receive(s).phase)
	r.publishPacket(packet(r.keys, upstreamCID, 2, 3, 0, body(11))) // a late packet of the old phase
	require.EqualValues(t, 1001, r.receive(s).number)

	// The subscriber's keys: generation 1 from some packet number on.
	old := *s.keys
	copy(s.keys.Key[:], randomBytes(32))
	copy(s.keys.IV[:], randomBytes(12))
	r.SetSendKeys(s.index, 1, s.keys)
	r.Kernel.subscribers[s.index].NextPn += 1 << 62
	r.publishPacket(packet(r.keys, upstreamCID, 3, 4, 0, body(15)))
	got := r.receive(s)
	require.Equal(t, 1, got.phase)
	require.EqualValues(t, 1002, got.number)
	require.NotEqual(t, old, *s.keys)
}

// TestForgeries sends what an attacker could: it is counted, and reaches nobody but user space.
func TestForgeries(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	good := packet(r.keys, upstreamCID, 7, 4, 0, stream(3, 0, 1, append(subgroupHeader(77, 1, 0, 9), "object"...)))
	for range 200 {
		bad := slices.Clone(good)
		bad[1+len(upstreamCID)+rand.IntN(len(bad)-1-len(upstreamCID))] ^= 1 << rand.IntN(8)
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
	r.publishPacket(packet(r.keys, upstreamCID, 9, 4, 0, concat(0x0e, uint64(3), uint64(0), uint64(5000), "short")))
	require.EqualValues(t, 1, r.counts()["packet_malformed"])
	r.publishPacket(append([]byte{0xc3}, randomBytes(100)...))
	require.EqualValues(t, 1, r.counts()["packet_long_header"])

	r.publishPacket(good)
	r.receive(r.subscribers[0])
	r.publishPacket(good) // replayed
	require.EqualValues(t, 1, r.counts()["copy_sent"])
}

func TestBudget(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	sub := r.subscription(r.subscribers[0])
	absent := sub
	absent.Subscriber = 900
	require.NoError(t, r.SetTrack(5, 128, append(slices.Repeat([]Subscription{absent}, defaultMaxCopies), sub)))
	r.publish(stream(3, 0, 1, append(subgroupHeader(77, 1, 0, 9), "object"...)))
	require.Equal(t, map[string]uint64{"packet_opened": 1, "frame_forwarded": 1, "copy_no_path": defaultMaxCopies, "copy_budget": 1}, r.counts())
	require.Error(t, r.SetTrack(5, 128, make([]Subscription, MaxSubscriptions+1)))
}

func TestReasonNames(t *testing.T) {
	k, err := Load(Settings{Port: relayPort})
	requireKernel(t, err)
	defer k.Close()
	require.Len(t, reasonNames, int(k.ingress.Reasons.MaxEntries()))
	seen := map[string]bool{}
	for _, name := range reasonNames {
		require.NotEmpty(t, name)
		require.False(t, seen[name])
		require.True(t, strings.HasPrefix(name, "packet_") || strings.HasPrefix(name, "frame_") || strings.HasPrefix(name, "copy_"))
		seen[name] = true
	}
}

func TestSettings(t *testing.T) {
	for _, s := range []Settings{{}, {Port: 1, ConnectionIDLen: 21}, {Port: 1, ConnectionIDLen: -1}, {Port: 1, MaxCopies: 33}, {Port: 1, MaxCopies: -1}} {
		_, err := Load(s)
		require.ErrorContains(t, err, "fast path")
	}
}

// TestTags gives the programs frames with VLAN tags: they look behind up to two, and send to a subscriber with the one that the stack uses.
func TestTags(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1, SoftwareChecksums: true}, false)
	sub := r.subscription(r.subscribers[0])
	tags := [][]byte{nil, concat(0x81, 0, 0, 5), concat(0x88, 0xa8, 0, 6, 0x81, 0, 0, 5)}
	two := func(v int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(v)) }
	datagram := func(sport, dport uint16, payload []byte) []byte {
		udp := concat(two(int(sport)), two(int(dport)), two(8+len(payload)), 0, 0, payload)
		return concat(0x45, 0, two(20+len(udp)), 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7, udp)
	}
	for i, tag := range tags {
		before := r.counts()
		p := packet(r.keys, upstreamCID, uint64(i), 4, 0, []byte{1, 0, 0, 0})
		frame := concat(make([]byte, 12), tag, 8, 0, datagram(9, relayPort, p))
		_, err := r.ingress.ServerIngress.Run(&ebpf.RunOptions{Data: frame})
		require.NoError(t, err)
		require.Equal(t, before["packet_opened"]+1, r.counts()["packet_opened"], "%d tags", i)
	}

	// What the stack sends to a subscriber has a tag; so have the copies.
	frame := concat(2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, tags[1], 8, 0, datagram(relayPort, 700, []byte("handshake")))
	_, err := r.egress.ClientEgress.Run(&ebpf.RunOptions{Data: frame})
	require.NoError(t, err)
	var n kernelNeighbor
	key := kernelEndpoint{Addr: [16]uint8{198, 51, 100, 7}, Port: bigEndian16(700)}
	require.NoError(t, r.ingress.Neighbors.Lookup(key, &n))
	require.Equal(t, [6]uint8{2, 0, 0, 0, 0, 9}, n.Dmac)
	require.Equal(t, bigEndian16(0x8100), n.VlanProto)
	require.Equal(t, bigEndian16(5), n.VlanTci)

	require.NoError(t, r.lab.Relay.Do(func() error {
		n.Ifindex = uint32(r.index(r.lab.Relay.Facing(r.lab.Subscribers[0])))
		return nil
	}))
	require.NoError(t, r.ingress.Neighbors.Put(key, n))
	require.NoError(t, r.SetPath(r.subscribers[0].index, Path{
		Local: netip.MustParseAddrPort("192.0.2.1:4443"), Remote: netip.MustParseAddrPort("198.51.100.7:700"), InitialMaxStream: 1 << 20,
	}))
	require.NoError(t, r.SetTrack(5, 128, []Subscription{sub}))
	sniffer := r.sniff(r.lab.Subscribers[0])
	r.nextPN = 100
	r.publish(stream(3, 0, 1, append(subgroupHeader(77, 1, 5, 9), "object"...)))
	require.EqualValues(t, 1, r.counts()["copy_sent"], "%v", r.counts())
	got := sniffer(func(p []byte) bool { return bytes.HasPrefix(p, n.Dmac[:]) })
	require.Equal(t, concat(2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, tags[1], 8, 0, 0x45), got[:19])
}

// sniff opens a packet socket on a host's device. The returned function waits for the first frame that matches.
func (r *rig) sniff(h *lab.Host) func(match func([]byte) bool) []byte {
	var fd int
	require.NoError(r.t, h.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(bigEndian16(unix.ETH_P_ALL)))
		return err
	}))
	r.t.Cleanup(func() { unix.Close(fd) })
	require.NoError(r.t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
	require.NoError(r.t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1))
	return func(match func([]byte) bool) []byte {
		buffer, oob := make([]byte, 4096), make([]byte, 256)
		for {
			n, o, _, _, err := unix.Recvmsg(fd, buffer, oob, 0)
			require.NoError(r.t, err)
			if !match(buffer[:n]) {
				continue
			}
			messages, err := unix.ParseSocketControlMessage(oob[:o])
			require.NoError(r.t, err)
			aux := messages[0].Data // struct tpacket_auxdata: the stack has taken the tag out
			tag := []byte{aux[19], aux[18], aux[17], aux[16]}
			return slices.Concat(buffer[:12], tag, buffer[12:n])
		}
	}
}
