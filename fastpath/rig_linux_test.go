package fastpath

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/moqt"
)

const relayPort = 4443

var concat, stream, vi64 = bpftest.Concat, bpftest.Stream, bpftest.VI64

// aead returns the cipher and the nonce of the packet with a number (RFC 9001 §5.3).
func aead(k *claim.PacketKeys, pn uint64) (a cipher.AEAD, nonce []byte) {
	nonce = slices.Clone(k.IV[:])
	for i := range 8 {
		nonce[11-i] ^= byte(pn >> (8 * i))
	}
	return newAEAD(k), nonce
}

// packet is a short header packet.
func packet(k *claim.PacketKeys, cid []byte, pn uint64, pnLen, phase int, payload []byte) []byte {
	return packetWith(0x40|byte(phase<<2), k, cid, pn, pnLen, payload)
}

// packetWith is a short header packet whose first byte has some bits.
func packetWith(bits byte, k *claim.PacketKeys, cid []byte, pn uint64, pnLen int, payload []byte) []byte {
	p := append([]byte{bits | byte(pnLen-1)}, cid...)
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

// openPacket opens a packet with a four-byte number.
func openPacket(t testing.TB, k *claim.PacketKeys, cid, p []byte) (r received, payload []byte) {
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
	r = received{number: uint64(binary.BigEndian.Uint32(p[at:])), phase: int(p[0] >> 2 & 1)}
	a, nonce := aead(k, r.number)
	payload, err := a.Open(nil, nonce, p[at+4:], p[:at+4])
	require.NoError(t, err)
	return r, payload
}

// open opens a packet with one STREAM frame that extends to its end.
func open(t testing.TB, k *claim.PacketKeys, cid, p []byte) received {
	t.Helper()
	r, payload := openPacket(t, k, cid, p)
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

func randomPacketKeys() *claim.PacketKeys {
	k := new(claim.PacketKeys)
	copy(k.Key[:], bpftest.RandomBytes(32))
	copy(k.HeaderProtection[:], bpftest.RandomBytes(32))
	copy(k.IV[:], bpftest.RandomBytes(12))
	return k
}

// publisherCID is the connection ID that the publisher addresses the relay with.
var publisherCID = []byte("12345678")

// publisherIndex is the index of the publisher's connection. Subscribers' indices begin at 0.
const publisherIndex = 100

// subscriber is a host that receives the kernel's packets.
type subscriber struct {
	index uint32
	conn  *net.UDPConn
	keys  *claim.PacketKeys
	cid   []byte
}

func (s *subscriber) address(t testing.TB) netip.Addr {
	a, err := netip.ParseAddrPort(s.conn.LocalAddr().String())
	require.NoError(t, err)
	return a.Addr()
}

// rig is a publisher, a relay with the programs attached, and subscribers.
type rig struct {
	*kernel
	fast        *FastPath
	t           testing.TB
	lab         *lab.Lab
	v6          bool
	keys        *claim.PacketKeys // of the publisher's packets
	publisher   *net.UDPConn
	relay       *net.UDPConn
	subscribers []*subscriber
	nextPN      uint64
	abandoned   []*claim.StreamState
}

func newRig(t testing.TB, topology lab.Topology, v6 bool) *rig {
	t.Helper()
	return newRigFor(t, topology, v6, Settings{})
}

// connect returns a connection with a session.
func (r *rig) connect() *conn {
	c, _ := r.fast.Connect(func(st *claim.StreamState) { r.abandoned = append(r.abandoned, st) })
	c.SetSession(claim.Session{Layout: moqt.DataLayout1})
	return c.(*conn)
}

func newRigFor(t testing.TB, topology lab.Topology, v6 bool, s Settings) *rig {
	t.Helper()
	r := &rig{t: t, lab: labtest.New(t, topology), v6: v6, keys: randomPacketKeys()}
	var err error
	s.Port, s.ConnectionIDLen = relayPort, len(publisherCID)
	r.fast, err = New(s, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	require.NoError(t, err)
	r.kernel = r.fast.kernel
	t.Cleanup(func() { require.NoError(t, r.fast.Close()) })
	require.NoError(t, growAll(r.kernel.byConn, r.kernel.maxConns)) // a rig uses any indices
	r.fast.conns.add()
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
	r.addPublisher(publisherIndex, publisherCID, r.keys)
	require.NoError(t, r.SetAlias(publisherIndex, 77, 5))
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

// addPublisher adds a publisher's connection. All have the same addresses.
func (r *rig) addPublisher(index uint32, cid []byte, keys *claim.PacketKeys) {
	r.SetPublisher(index, false, 0)
	r.SetOpenKeys(index, 0, keys)
	require.NoError(r.t, r.SetPath(index, claim.Path{Local: r.relayAddr(), Remote: r.publisherAddr()}, claim.Session{}))
	require.NoError(r.t, r.AddConnectionID(cid, index))
}

// relayAddr is where the publisher sends packets to.
func (r *rig) relayAddr() netip.AddrPort {
	return netip.AddrPortFrom(r.address(r.lab.Relay.Facing(r.lab.Publisher)), relayPort)
}

// publisherAddr is where they come from.
func (r *rig) publisherAddr() netip.AddrPort {
	port := r.publisher.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	return netip.AddrPortFrom(r.address(r.lab.Publisher.Devices[0]), port)
}

// crowd adds subscribers, on the hosts that there are, until there are n.
func (r *rig) crowd(n int) {
	for i := len(r.subscribers); i < n; i++ {
		index := uint32(i)
		if index >= publisherIndex {
			index++
		}
		r.addSubscriber(index, r.lab.Subscribers[i%len(r.lab.Subscribers)])
	}
}

func (r *rig) addSubscriber(index uint32, h *lab.Host) {
	t := r.t
	near, far := r.lab.Relay.Facing(h), h.Devices[0]
	require.NoError(t, r.ledgers.lend(index))
	s := &subscriber{index: index, keys: randomPacketKeys(), cid: bpftest.RandomBytes(int(index) * 4 % 21)}
	var err error
	address := netip.AddrPortFrom(r.address(far), 9000+uint16(index))
	s.conn, err = h.ListenUDP(address)
	require.NoError(t, err)
	require.NoError(t, r.SetPath(index, claim.Path{
		Local: netip.AddrPortFrom(r.address(near), relayPort), Remote: address,
		DestConnID: s.cid, MaxStreamData: 1 << 40, MaxDatagramFrame: 1 << 16,
	}, claim.Session{}))
	r.SetSendKeys(index, 0, s.keys)
	state := &r.kernel.conns[index]
	state.Window, state.DataLimit, state.MaxUni = 1<<20, 1<<20, 100
	state.NextUni, state.Threshold, state.Mtu, state.NextPn, state.LedgerLow = 3, 0xffff, 1400, 1000, 1000
	r.subscribers = append(r.subscribers, s)
	r.greet(s)
}

// greet sends something through the relay's stack to a subscriber: the programs learn where the subscriber is.
func (r *rig) greet(s *subscriber) {
	_, err := r.relay.WriteTo([]byte("handshake"), s.conn.LocalAddr())
	require.NoError(r.t, err)
	require.NoError(r.t, s.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	_, _, err = s.conn.ReadFromUDPAddrPort(make([]byte, 100))
	require.NoError(r.t, err)
}

func (r *rig) subscription(s *subscriber) bpf.Subscription {
	return bpf.Subscription{Subscriber: s.index, Alias: 1000 + uint64(s.index), EndGroup: 1<<64 - 1, Forward: 1,
		Priority: 128}
}

func (r *rig) subscribeAll() {
	var all []bpf.Subscription
	for _, s := range r.subscribers {
		all = append(all, r.subscription(s))
	}
	require.NoError(r.t, r.SetTrack(5, 128, all))
}

// publish sends frames in one packet, and waits until the relay's socket has it.
func (r *rig) publish(frames ...[]byte) {
	r.t.Helper()
	r.publishPacket(r.packet(frames...))
}

// packet is the publisher's next packet.
func (r *rig) packet(frames ...[]byte) []byte {
	p := packet(r.keys, publisherCID, r.nextPN, 4, 0, slices.Concat(frames...))
	r.nextPN++
	return p
}

// publishPacket expects the packet to reach user space as it was sent.
func (r *rig) publishPacket(p []byte) {
	r.t.Helper()
	_, err := r.publisher.WriteToUDPAddrPort(p, r.relayAddr())
	require.NoError(r.t, err)
	r.expectPacket(p)
}

// expectPacket expects a packet to be the next that user space gets.
func (r *rig) expectPacket(p []byte) {
	r.t.Helper()
	buffer := make([]byte, 2000)
	require.NoError(r.t, r.relay.SetReadDeadline(time.Now().Add(time.Minute)))
	n, _, err := r.relay.ReadFromUDPAddrPort(buffer)
	require.NoError(r.t, err)
	require.Equal(r.t, p, buffer[:n], "user space gets the packet as it was sent")
}

// run runs server_ingress on frames in one packet, which then goes nowhere. It may be called on several goroutines.
func (r *rig) run(frames ...[]byte) {
	r.runPacket(packet(r.keys, publisherCID, atomic.AddUint64(&r.nextPN, 1)-1, 4, 0, slices.Concat(frames...)))
}

// runPacket runs server_ingress on a packet of the publisher's.
func (r *rig) runPacket(p []byte) {
	r.runFrame(concat(make([]byte, 12), udpFrame(r.publisherAddr(), r.relayAddr(), p)))
}

// runFrame runs server_ingress on an Ethernet frame.
func (r *rig) runFrame(frame []byte) {
	if err := r.lab.Relay.Do(func() error {
		_, err := r.ingress.ServerIngress.Run(&ebpf.RunOptions{Data: frame})
		return err
	}); err != nil {
		panic(err)
	}
}

// udpFrame is an Ethernet frame without its addresses: a UDP datagram with checksums.
func udpFrame(from, to netip.AddrPort, payload []byte) []byte {
	two := func(v int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(v)) }
	udp := concat(two(int(from.Port())), two(int(to.Port())), two(8+len(payload)), 0, 0, payload)
	addresses := concat(from.Addr().AsSlice(), to.Addr().AsSlice())
	copy(udp[6:], checksum(concat(addresses, 0, 17, two(len(udp)), udp)))
	if udp[6] == 0 && udp[7] == 0 {
		udp[6], udp[7] = 0xff, 0xff // 0 would mean that there is none (RFC 768)
	}
	if from.Addr().Is6() {
		return concat(0x86, 0xdd, 0x60, 0, 0, 0, two(len(udp)), 17, 64, addresses, udp)
	}
	ip := concat(0x45, 0, two(20+len(udp)), 0, 0, 0x40, 0, 64, 17, 0, 0, addresses)
	copy(ip[10:], checksum(ip))
	return concat(8, 0, ip, udp)
}

// checksum is the Internet checksum (RFC 1071).
func checksum(b []byte) []byte {
	sum := uint32(0)
	for i, v := range b {
		sum += uint32(v) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return binary.BigEndian.AppendUint16(nil, ^uint16(sum))
}

// receive reads one packet of a subscriber's, with a STREAM frame.
func (r *rig) receive(s *subscriber) received {
	r.t.Helper()
	return open(r.t, s.keys, s.cid, r.receivePacket(s))
}

// receiveDatagram reads one packet of a subscriber's, and returns the data of its DATAGRAM frame.
func (r *rig) receiveDatagram(s *subscriber) []byte {
	r.t.Helper()
	_, payload := openPacket(r.t, s.keys, s.cid, r.receivePacket(s))
	require.EqualValues(r.t, 0x30, payload[0], "a DATAGRAM frame without a length")
	return payload[1:]
}

// receivePacket reads one packet of a subscriber's. The stack has verified the checksums.
func (r *rig) receivePacket(s *subscriber) []byte {
	r.t.Helper()
	buffer := make([]byte, 2000)
	require.NoError(r.t, s.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	n, from, err := s.conn.ReadFromUDPAddrPort(buffer)
	require.NoError(r.t, err, "%v", r.counts())
	require.EqualValues(r.t, relayPort, from.Port())
	return buffer[:n]
}

// counts lists the reasons that were counted, apart from packets that have nothing to do with media, from how packets
// were opened and copies sealed.
func (r *rig) counts() map[string]uint64 {
	r.t.Helper()
	counts, err := r.Counts()
	require.NoError(r.t, err)
	maps.DeleteFunc(counts, func(name string, n uint64) bool {
		return n == 0 || name == "packet_not_media" || strings.HasPrefix(name, "seal_") ||
			strings.HasPrefix(name, "open_")
	})
	return counts
}

// subgroupHeader is a SUBGROUP_HEADER with Subgroup ID and priority.
func subgroupHeader(alias, group, subgroup uint64, priority int) []byte {
	return concat(0x14, vi64(alias), vi64(group), vi64(subgroup), priority)
}

// subgroupBegins is a frame with the first bytes of a stream.
func subgroupBegins(streamID uint64) []byte {
	return stream(streamID, 0, 0, append(subgroupHeader(77, streamID, 0, 9), "object"...))
}

// record is the ledger's entry of a subscriber's packet.
func (r *rig) record(s *subscriber, pn uint64) *claim.Record {
	return &r.ledgers.of(s.index)[pn%claim.LedgerLen]
}

// SetSendKeys sets the keys of a subscriber's key generation, before the first packet number of that generation is
// taken.
func (k *kernel) SetSendKeys(subscriber uint32, generation uint64, keys *claim.PacketKeys) {
	k.keys[subscriber].Generation[generation&3] = wordsOf(keys)
}

// SetPublisher starts to open the packets of a publisher that bear one of the relay's connection IDs. expected is the
// lowest packet number that has not been received.
func (k *kernel) SetPublisher(publisher uint32, webtransport bool, expected uint64) {
	u := &k.publishers[publisher]
	*u = bpf.Publisher{ExpectedPn: expected, Active: 1}
	if webtransport {
		u.Webtransport = 1
	}
}

// SetOpenKeys sets the keys of a publisher, and their key phase, 0 or 1.
func (k *kernel) SetOpenKeys(publisher uint32, phase int, keys *claim.PacketKeys) {
	u := &k.publishers[publisher]
	u.Keys[phase] = wordsOf(keys)
	u.KeysSet = 1 << phase
}

// SetTrack replaces the subscriptions of a track, at most 512, from the next packet on. defaultPriority is the
// Publisher Priority of subgroups that do not say theirs.
func (k *kernel) SetTrack(track uint32, defaultPriority uint8, subscriptions []bpf.Subscription) error {
	if len(subscriptions) > MaxSubscriptions {
		return fmt.Errorf("fast path: %d subscriptions of one track, at most %d are possible", len(subscriptions),
			MaxSubscriptions)
	}
	v := bpf.Track{DefaultPriority: uint32(defaultPriority), Publisher: publisherIndex, Alias: 77}
	return k.tracks.put(track, trackValue(v, subscriptions)...)
}
