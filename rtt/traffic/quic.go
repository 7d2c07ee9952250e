package traffic

import (
	"encoding/binary"
	"time"

	"sluice/rtt/internal/wire"
)

const (
	initialBytes = 1200
	shortBytes   = 1250
	ackBytes     = 40
)

// quic is a download by QUIC. Each end has a connection ID of eight bytes.
type quic struct {
	path
	ids      [3][]byte // the customer's, the server's, and the ID that the customer makes up for the server
	down, up headers   // of 1-RTT packets
	spins    bool
	marks    *marks // of the server; nil: no loss bits
	left     int
	window   int
	round    int
}

// spinning is the share of servers that keep the spin bit on (RFC 9000 §17.4 lets them switch it off).
const spinning = 0.5

// marking is the share of servers that set loss bits.
const marking = 0.2

func newQUIC(g *generator, p path) *quic {
	q := &quic{path: p, left: g.size(), window: firstWindow, spins: g.rng.Float64() < spinning}
	if g.rng.Float64() < marking {
		q.marks = &marks{lost: 0.02 * g.rng.Float64()}
	}
	for i := range q.ids {
		q.ids[i] = binary.BigEndian.AppendUint64(nil, g.rng.Uint64())
	}
	q.down = udpHeaders(p.server, p.customer, wire.Short(false, q.ids[0], 0, 0))
	q.up = udpHeaders(p.customer, p.server, wire.Short(false, q.ids[1], 0, 0))
	return q
}

func (q *quic) step(g *generator, now time.Duration) time.Duration {
	q.round++
	if q.round == 1 {
		return q.open(g, now)
	}
	near := g.jitter(q.near)
	spin := q.spins && q.round%2 == 0 // the server reflects the customer's bit, the customer inverts the server's
	for n := 0; n < q.window && q.left > 0; n++ {
		if bits, arrives := q.marks.next(g); arrives {
			q.short(g, now, q.down, spin, bits, shortBytes)
		}
		q.left -= shortBytes
		if n%2 == 1 || q.left <= 0 {
			q.short(g, now+near, q.up, q.spins && !spin, g.hidden(), ackBytes)
		}
		now += segmentGap
	}
	if q.left <= 0 {
		return 0
	}
	q.window = min(2*q.window, greatestWindow)
	return now + near + g.jitter(q.far)
}

// open sends the handshake.
func (q *quic) open(g *generator, now time.Duration) time.Duration {
	long := func(at time.Duration, fromServer bool, l wire.Long) {
		from, to := q.customer, q.server
		if fromServer {
			from, to = q.server, q.customer
		}
		frame := wire.Frame(wire.UDP(from, to, l.Datagram()))
		g.send(at, frame, len(frame))
	}
	long(now, false, wire.Long{Type: wire.Initial, Destination: q.ids[2], Source: q.ids[0], Length: initialBytes})
	now += g.jitter(q.far)
	long(now, true, wire.Long{Type: wire.Initial, Destination: q.ids[0], Source: q.ids[1], Length: initialBytes})
	now += g.jitter(q.near)
	long(now, false, wire.Long{Type: wire.Handshake, Destination: q.ids[1], Source: q.ids[0], Length: initialBytes})
	q.short(g, now+segmentGap, q.up, false, g.hidden(), 300)
	return now + g.jitter(q.far)
}

const udpHeader = 8

// marks are the loss bits of a server (RFC 9506).
type marks struct {
	lost       float64 // probability that a packet does not arrive at the monitor
	number     int     // of the next packet
	unreported int     // losses that are not marked yet
}

// next returns the bits of the next packet, and whether it arrives.
func (m *marks) next(g *generator) (bits byte, arrives bool) {
	const squareBit, lossEventBit = 0x10, 0x08
	bits = g.hidden()
	if m == nil {
		return bits, true
	}
	bits &^= squareBit | lossEventBit
	if m.number/64%2 == 1 {
		bits |= squareBit
	}
	m.number++
	if g.rng.Float64() < m.lost {
		m.unreported++
		return 0, false
	}
	if m.unreported > 0 {
		m.unreported--
		bits |= lossEventBit
	}
	return bits, true
}

// short sends a 1-RTT packet of some bytes. hidden are the low bits of its first byte.
func (q *quic) short(g *generator, at time.Duration, h headers, spin bool, hidden byte, bytes int) {
	const spinBit = 0x20
	zeros := bytes - (len(h.frame) - h.transport - udpHeader)
	frame, b := h.packet(zeros)
	b[udpHeader] |= hidden
	if spin {
		b[udpHeader] |= spinBit
	}
	h.finish(frame, zeros)
	g.send(at, frame, len(frame)+zeros)
}
