package media

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/packet/packettest"
	"sluice/internal/udp"
	"sluice/track"
)

// fakeClock stands still until a test moves it.
type fakeClock struct {
	t    clock.Time
	base time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{t: clock.Time(time.Hour), base: time.Unix(1_700_000_000, 0)}
}

func (c *fakeClock) Now() clock.Time             { return c.t }
func (c *fakeClock) At(t time.Time) clock.Time   { return clock.Time(time.Hour).Add(t.Sub(c.base)) }
func (c *fakeClock) When(t clock.Time) time.Time { return c.base.Add(t.Sub(clock.Time(time.Hour))) }
func (c *fakeClock) Wall() time.Time             { return c.base.Add(c.t.Sub(clock.Time(time.Hour))) }
func (c *fakeClock) advance(d time.Duration)     { c.t = c.t.Add(d) }

// fakeSocket keeps the written packets.
type fakeSocket struct {
	gso     bool
	discard bool
	packets []sentPacket
	counts  []int // packets per message
}

type sentPacket struct {
	data   []byte
	remote netip.AddrPort
	ecn    byte
}

func (s *fakeSocket) Trains() bool               { return s.gso }
func (s *fakeSocket) Name(netip.AddrPort) []byte { return nil }

func (s *fakeSocket) Write(messages []udp.Message) {
	if s.discard {
		return
	}
	for _, m := range messages {
		s.counts = append(s.counts, m.Count)
		for data := m.Data; len(data) > 0; {
			n := min(m.Segment, len(data))
			s.packets = append(s.packets, sentPacket{slices.Clone(data[:n]), m.Route.Remote(), m.Route.ECN()})
			data = data[n:]
		}
	}
}

// world is a sender with a fake clock, a fake socket and a peer, driven by the test.
type world struct {
	t       testing.TB
	clock   *fakeClock
	sock    *fakeSocket
	loop    *Loop
	shard   *shard
	stepped Stepped
	s       Hooks
	peer    *peer
}

var testSecret = []byte("a traffic secret of 32 bytes....")

const testMTU = 1280

const time10 = 10 * time.Millisecond

type worldConfig struct {
	sender SenderConfig
	loop   LoopConfig
	params quic.PeerParameters
	suite  uint16
}

func defaultParams() quic.PeerParameters {
	return quic.PeerParameters{
		MaxData: 1 << 40, MaxStreamDataUni: 1 << 40, MaxStreamsUni: 1 << 20,
		MaxUDPPayloadSize: 1452, MaxDatagramFrameSize: 1200, AckDelayExponent: 3, MaxAckDelay: 25 * time.Millisecond,
	}
}

// newWorld makes a sender whose handshake is confirmed.
func newWorld(t testing.TB, configure ...func(*worldConfig)) *world {
	cfg := worldConfig{params: defaultParams(), suite: tls.TLS_AES_128_GCM_SHA256}
	for _, f := range configure {
		f(&cfg)
	}
	w := &world{t: t, clock: newFakeClock(), sock: new(fakeSocket)}
	w.stepped = NewStepped(cfg.loop, w.clock, w.sock)
	w.loop, w.shard = w.stepped.Loop, w.stepped.shard
	w.s = w.loop.NewSender(cfg.sender).Hooks()
	for range 5 {
		w.s.NextPacketNumber() // quic-go's handshake
	}
	w.s.PeerParameters(cfg.params)
	if cfg.sender.Client {
		w.s.Keys(0, cfg.suite, packet.Version1, testSecret, nil)
	}
	w.s.Keys(0, cfg.suite, packet.Version1, nil, testSecret)
	if !cfg.sender.Client {
		w.s.Keys(0, cfg.suite, packet.Version1, testSecret, nil)
	}
	w.peer = newPeer(t, cfg.suite)
	w.path("192.0.2.1:4433", testMTU)
	return w
}

func (w *world) path(remote string, mtu int) {
	w.reach(remote, mtu, 1, 2, 3, 4, 5, 6, 7, 8)
}

// reach makes a path with a connection ID.
func (w *world) reach(remote string, mtu int, connID ...byte) {
	addr, err := net.ResolveUDPAddr("udp", remote)
	require.NoError(w.t, err)
	if w.peer != nil {
		w.peer.connID = connID
	}
	w.s.Path(quic.PathInfo{Remote: addr, DestConnID: quic.ConnectionIDFromBytes(connID), MTU: mtu})
}

// run does what the shard's goroutine does, until it would sleep. It returns the packets that were sent.
func (w *world) run() []*wirePacket {
	for i := 0; ; i++ {
		if i > 10_000 {
			w.t.Fatalf("the sender is busy without an end: %+v", w.s.Stats())
		}
		feeds, senders, _ := w.shard.take(nil, nil)
		w.shard.serve(feeds, senders)
		if w.shard.idle() && w.shard.alarms.next() > w.clock.t {
			break
		}
	}
	var out []*wirePacket
	for _, p := range w.sock.packets {
		out = append(out, w.peer.open(p))
	}
	w.sock.packets = nil
	return out
}

// sleep moves the clock to the next alarm, but not by more than limit, and runs.
func (w *world) sleep(limit time.Duration) []*wirePacket {
	w.clock.t = min(max(w.shard.alarms.next(), w.clock.t), w.clock.t.Add(limit))
	return w.run()
}

// newTestLog returns a log that begins at an offset, with n bytes.
func newTestLog(start int64, n int) *track.Log {
	l := track.NewLog(start, nil)
	l.Append(testBytes(start, n))
	return l
}

// testBytes is what test logs contain at an offset.
func testBytes(offset int64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := uint64(offset+int64(i)) * 0x9e3779b97f4a7c15
		b[i] = byte(x >> 56)
	}
	return b
}

func (w *world) subscribe(configure ...func(*SubscriptionConfig)) *Subscription {
	cfg := SubscriptionConfig{Priority: 128}
	for _, f := range configure {
		f(&cfg)
	}
	return w.s.NewSubscription(cfg)
}

// stream opens a stream on a log with a short prefix, and returns a function that returns its results.
func (w *world) stream(sub *Subscription, l *track.Log, configure ...func(*StreamConfig)) (*Stream, func() []Result) {
	var results []Result
	cfg := StreamConfig{
		Prefix: []byte("prefix"), Log: l, Start: l.First.From, Priority: 128,
		OnDone: func(r Result) { results = append(results, r) },
	}
	for _, f := range configure {
		f(&cfg)
	}
	st, err := sub.OpenStream(cfg)
	require.NoError(w.t, err)
	return st, func() []Result {
		w.s.mu.tell()
		return results
	}
}

// ack acknowledges everything received so far, after a delay.
func (w *world) ack(after time.Duration) {
	w.clock.advance(after)
	w.ackRanges(w.peer.ranges()...)
}

func (w *world) ackRanges(ranges ...quic.AckRange) (time.Duration, error) {
	return w.s.Acked(&quic.AckInfo{Ranges: ranges, Received: w.clock.Wall()})
}

// ackNumbers acknowledges single packets.
func (w *world) ackNumbers(numbers ...int64) {
	slices.Sort(numbers)
	var r []quic.AckRange
	for _, n := range slices.Backward(numbers) {
		r = append(r, quic.AckRange{Smallest: n, Largest: n})
	}
	_, err := w.ackRanges(r...)
	require.NoError(w.t, err)
}

// wirePacket is what the peer found in a packet: one frame.
type wirePacket struct {
	number int64
	phase  byte
	size   int
	ecn    byte // of the IP header
	remote netip.AddrPort

	frame  byte
	id     int64 // stream id
	offset int64
	data   []byte
	fin    bool
	fields []uint64 // of other frames

	immediate bool // after an IMMEDIATE_ACK frame
}

func (p *wirePacket) String() string {
	return fmt.Sprintf("{%d: frame %#x id %d offset %d len %d fin %v %v}",
		p.number, p.frame, p.id, p.offset, len(p.data), p.fin, p.fields)
}

// peer opens packets, checks all that a receiver would, and puts streams together.
type peer struct {
	t         testing.TB
	suite     uint16
	opener    *packettest.Opener
	connID    []byte
	received  spans // packet numbers
	streams   map[int64]*receivedStream
	datagrams [][]byte
	lastReset []uint64
}

type receivedStream struct {
	data  []byte
	have  spans // of data
	final int64 // -1: unknown
	reset bool
	code  uint64
}

func newPeer(t testing.TB, suite uint16) *peer {
	return &peer{
		t: t, suite: suite, opener: packettest.NewOpener(t, suite, packet.Version1, testSecret),
		streams: make(map[int64]*receivedStream),
	}
}

// open removes protection, and parses the frame. The packet has arrived then.
func (p *peer) open(sent sentPacket) *wirePacket {
	q := p.decrypt(sent)
	p.deliver(q)
	return q
}

func (p *peer) decrypt(sent sentPacket) *wirePacket {
	require.True(p.t, bytes.HasPrefix(sent.data[1:], p.connID), "destination connection ID")
	o := p.opener.Open(sent.data, len(p.connID))
	q := parseFrame(p.t, o.Payload)
	q.number, q.phase, q.size, q.remote = int64(o.Number), o.Phase, len(sent.data), sent.remote
	q.ecn = sent.ecn
	return q
}

func (p *peer) deliver(q *wirePacket) {
	if p.received.contains(q.number, q.number+1) {
		p.t.Fatalf("packet number %d used twice", q.number)
	}
	p.received.add(q.number, q.number+1)
	p.frame(q)
}

func (p *peer) stream(id int64) *receivedStream {
	st := p.streams[id]
	if st == nil {
		st = &receivedStream{final: -1}
		p.streams[id] = st
	}
	return st
}

func (p *peer) frame(q *wirePacket) {
	switch {
	case q.frame&^0x07 == packet.FrameStream:
		st := p.stream(q.id)
		end := q.offset + int64(len(q.data))
		st.data = append(st.data, make([]byte, max(end-int64(len(st.data)), 0))...)
		for _, h := range st.have {
			if from, to := max(h.from, q.offset), min(h.to, end); from < to {
				require.Equal(p.t, st.data[from:to], q.data[from-q.offset:to-q.offset], "stream %d changed", q.id)
			}
		}
		copy(st.data[q.offset:], q.data)
		st.have.add(q.offset, end)
		if q.fin {
			require.True(p.t, st.final < 0 || st.final == end, "final size changed")
			st.final = end
		}
		require.True(p.t, st.final < 0 || end <= st.final, "data beyond the final size")
	case q.frame == packet.FrameResetStream:
		st := p.stream(int64(q.fields[0]))
		require.True(p.t, st.final < 0 || st.final == int64(q.fields[2]), "final size changed")
		p.lastReset = q.fields
		st.reset, st.code, st.final = true, q.fields[1], int64(q.fields[2])
		require.LessOrEqual(p.t, int64(len(st.data)), st.final, "data beyond the final size")
	case q.frame == packet.FrameDatagram:
		p.datagrams = append(p.datagrams, q.data)
	}
}

// bytes returns a complete stream.
func (p *peer) bytes(id int64) []byte {
	st := p.stream(id)
	require.GreaterOrEqual(p.t, st.final, int64(0), "stream %d has no end", id)
	require.False(p.t, st.reset)
	require.True(p.t, st.have.contains(0, st.final), "stream %d has only %v of %d", id, st.have, st.final)
	return st.data
}

// ranges returns what an ACK frame would carry.
func (p *peer) ranges() []quic.AckRange {
	var r []quic.AckRange
	for _, x := range slices.Backward(p.received) {
		r = append(r, quic.AckRange{Smallest: x.from, Largest: x.to - 1})
	}
	return r
}

// forget makes acknowledgments leave out packets that have arrived.
func (p *peer) forget(numbers ...int64) {
	for _, n := range numbers {
		p.received.remove(n, n+1)
	}
}

func rangesOf(numbers []int64) []quic.AckRange {
	slices.Sort(numbers)
	var r []quic.AckRange
	for _, n := range slices.Backward(numbers) {
		if k := len(r); k > 0 && r[k-1].Smallest == n+1 {
			r[k-1].Smallest = n
			continue
		}
		r = append(r, quic.AckRange{Smallest: n, Largest: n})
	}
	return r
}

// parseFrame parses a packet's only frame, and perhaps IMMEDIATE_ACK before it.
func parseFrame(t testing.TB, b []byte) *wirePacket {
	q := &wirePacket{}
	varint := func() uint64 {
		n := 1 << (b[0] >> 6)
		v := uint64(b[0] & 0x3f)
		for _, x := range b[1:n] {
			v = v<<8 | uint64(x)
		}
		b = b[n:]
		return v
	}
	q.frame = byte(varint())
	if q.frame == packet.FrameImmediateAck {
		q.immediate, q.frame = true, byte(varint())
	}
	fields := map[byte]int{
		packet.FramePing: 0, packet.FrameResetStream: 3, packet.FrameDataBlocked: 1,
		packet.FrameStreamDataBlocked: 2, packet.FrameStreamsBlockedUni: 1, packet.FrameAckFrequency: 4,
	}
	switch {
	case q.frame&^0x07 == packet.FrameStream:
		require.Zero(t, q.frame&0x02, "LEN bit")
		q.id = int64(varint())
		if q.frame&packet.FrameStreamOffset != 0 {
			q.offset = int64(varint())
		}
		q.fin, q.data, b = q.frame&packet.FrameStreamFIN != 0, b, nil
		require.True(t, q.fin || len(q.data) > 0, "empty STREAM frame")
	case q.frame == packet.FrameDatagram:
		q.data, b = b, nil
	default:
		n, ok := fields[q.frame]
		require.True(t, ok, "frame type %#x", q.frame)
		for range n {
			q.fields = append(q.fields, varint())
		}
	}
	require.Empty(t, b, "more than one frame")
	return q
}
