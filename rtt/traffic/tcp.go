package traffic

import (
	"encoding/binary"
	"time"

	"sluice/rtt/internal/wire"
)

const (
	segmentBytes   = 1400
	segmentGap     = 120 * time.Microsecond // 100 Mbit/s
	firstWindow    = 10
	greatestWindow = 64
	lossRate       = 0.002 // of segments, between the monitor and the customer
)

// tcp is a download.
type tcp struct {
	path
	down, up headers
	left     int // bytes that were not sent yet
	window   int // segments in a round
	round    int
	seq      uint32
	request  uint32 // sequence number after the request
	lost     *segment
	clock    [2]uint32 // timestamps of customer and server when the capture begins
	said     uint32    // the customer's latest timestamp
	heard    uint32    // the customer's timestamp that the server has received, and echoes
}

// segment is data from the server.
type segment struct {
	seq, value uint32
	length     int
}

func newTCP(g *generator, p path) *tcp {
	return &tcp{
		path: p, left: g.size(), window: firstWindow, seq: g.rng.Uint32(), request: g.rng.Uint32(),
		down: tcpHeaders(p.server, p.customer), up: tcpHeaders(p.customer, p.server),
		clock: [2]uint32{g.rng.Uint32(), g.rng.Uint32()},
	}
}

// value returns the timestamp that an end puts into a segment that passes the monitor at a time.
func (t *tcp) value(end int, at time.Duration) uint32 {
	way := t.near / 2
	if end == 1 {
		way = t.far / 2
	}
	return t.clock[end] + uint32((at-way)/time.Millisecond)
}

func (t *tcp) step(g *generator, now time.Duration) time.Duration {
	t.round++
	t.heard = t.said
	if t.round == 1 {
		return t.open(g, now)
	}
	return t.download(g, now)
}

// open sends the handshake and a request.
func (t *tcp) open(g *generator, now time.Duration) time.Duration {
	t.fromCustomer(g, now, wire.SYN, t.request, 0, 0, 0)
	t.heard = t.said
	now += g.jitter(t.far)
	value := t.value(1, now)
	t.fromServer(g, now, wire.SYN|wire.ACK, segment{seq: t.seq, value: value}, t.request+1)
	t.seq++
	now += g.jitter(t.near)
	t.fromCustomer(g, now, wire.ACK, t.request+1, t.seq, value, 0)
	length := 200 + g.rng.IntN(800)
	t.fromCustomer(g, now+segmentGap, wire.ACK|wire.PSH, t.request+1, t.seq, value, length)
	t.request += 1 + uint32(length)
	return now + g.jitter(t.far)
}

// download sends a window of segments, and the ACKs of every second one. Lost segments are sent again first.
func (t *tcp) download(g *generator, now time.Duration) time.Duration {
	near := g.jitter(t.near) // the same for all of a round: nothing is reordered
	again := t.lost
	t.lost = nil
	last := segment{}
	if again != nil {
		again.value = t.value(1, now)
		t.fromServer(g, now, wire.ACK, *again, t.request)
		t.fromCustomer(g, now+near, wire.ACK, t.request, t.seq, again.value, 0)
		now += segmentGap
	}
	n := 0
	for ; n < t.window && t.left > 0; n++ {
		s := segment{seq: t.seq, value: t.value(1, now), length: min(t.left, segmentBytes)}
		t.fromServer(g, now, wire.ACK, s, t.request)
		t.seq, t.left = t.seq+uint32(s.length), t.left-s.length
		if t.lost == nil && n > 0 && g.rng.Float64() < lossRate {
			t.lost = &s
		}
		if t.lost == nil {
			last = s
		}
		if (n%2 == 1 || t.left == 0) && last.length > 0 {
			t.fromCustomer(g, now+near, wire.ACK, t.request, last.seq+uint32(last.length), last.value, 0)
		}
		now += segmentGap
	}
	t.window = min(2*t.window, greatestWindow)
	if t.lost != nil {
		t.window = max(t.window/4, 2)
	}
	if t.left == 0 && t.lost == nil {
		t.close(g, now, near)
		return 0
	}
	return now + near + g.jitter(t.far)
}

func (t *tcp) close(g *generator, now, near time.Duration) {
	value := t.value(1, now)
	t.fromServer(g, now, wire.ACK|wire.FIN, segment{seq: t.seq, value: value}, t.request)
	now += near
	t.fromCustomer(g, now, wire.ACK|wire.FIN, t.request, t.seq+1, value, 0)
	t.heard = t.said
	now += g.jitter(t.far)
	t.fromServer(g, now, wire.ACK, segment{seq: t.seq + 1, value: t.value(1, now)}, t.request+1)
}

func (t *tcp) fromServer(g *generator, at time.Duration, flags uint8, s segment, ack uint32) {
	t.send(g, at, t.down, flags, s, ack, t.heard)
}

func (t *tcp) fromCustomer(g *generator, at time.Duration, flags uint8, seq, ack, echo uint32, length int) {
	s := segment{seq: seq, value: t.value(0, at), length: length}
	t.said = s.value
	t.send(g, at, t.up, flags, s, ack, echo)
}

// Where fields of a TCP header are, with nothing but timestamps as options.
const (
	tcpSeq   = 4
	tcpAck   = 8
	tcpFlags = 13
	tcpValue = 24
	tcpEcho  = 28
)

func (t *tcp) send(g *generator, at time.Duration, h headers, flags uint8, s segment, ack, echo uint32) {
	frame, b := h.packet(s.length)
	binary.BigEndian.PutUint32(b[tcpSeq:], s.seq)
	binary.BigEndian.PutUint32(b[tcpAck:], ack)
	b[tcpFlags] = flags
	binary.BigEndian.PutUint32(b[tcpValue:], s.value)
	binary.BigEndian.PutUint32(b[tcpEcho:], echo)
	h.finish(frame, s.length)
	g.send(at, frame, len(frame)+s.length)
}
