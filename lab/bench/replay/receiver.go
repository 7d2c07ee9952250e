package replay

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"sluice/clock"
	"sluice/internal/packet"
)

// prefixLength is the length of the prefix of streams here: the number of their subgroup.
const prefixLength = 8

// receiver is a subscriber's QUIC.
type receiver struct {
	simulation *simulation
	opener     packet.Opener
	numbers    intervals
	unacked    int // packets that ask for an ACK
	ackPlanned bool
	subgroups  []*subgroup
	streams    map[int64]*received
	arrivedAt  []clock.Time // of each object of the trace; 0: not yet
}

// received is the part of a stream that has arrived.
type received struct {
	have   intervals
	number [prefixLength]byte // of the subgroup
	parts  int                // objects that are complete
}

func newReceiver(s *simulation) (*receiver, error) {
	r := &receiver{
		simulation: s, opener: packet.Opener{Room: mtu}, streams: make(map[int64]*received),
		arrivedAt: make([]clock.Time, len(s.trace.Objects)),
	}
	key, err := packet.NewKey(0, suite, packet.Version1, secret)
	if err == nil {
		r.opener.Install(0, key)
	}
	return r, err
}

// expect makes the receiver know a subgroup. It returns the prefix of its stream.
func (r *receiver) expect(g *subgroup) (prefix []byte) {
	r.subgroups = append(r.subgroups, g)
	return binary.BigEndian.AppendUint64(nil, uint64(len(r.subgroups)-1))
}

// receive takes a packet.
func (r *receiver) receive(b []byte) {
	n, payload, ok := r.opener.Open(b, 1+connIDLength, 0)
	if !ok {
		r.simulation.fail(errors.New("a packet cannot be opened"))
		return
	}
	number := int64(n)
	c, err := parseContent(payload)
	if err != nil {
		r.simulation.fail(fmt.Errorf("packet %d: %w", number, err))
		return
	}
	if c.stream {
		r.take(c)
	}
	gap := len(r.numbers) > 0 && number != r.numbers[len(r.numbers)-1].to
	r.numbers.add(number, number+1)
	r.acknowledge(gap)
}

// take takes a part of a stream, and notes the objects that are complete.
func (r *receiver) take(c content) {
	st := r.streams[c.id]
	if st == nil {
		st = new(received)
		r.streams[c.id] = st
	}
	if c.from < prefixLength {
		copy(st.number[c.from:], c.data)
	}
	st.have.add(c.from, c.to)
	n := st.have.complete()
	if n < prefixLength {
		return
	}
	g := r.subgroups[binary.BigEndian.Uint64(st.number[:])]
	for ; st.parts < len(g.parts) && g.parts[st.parts].end+prefixLength <= n; st.parts++ {
		r.arrivedAt[g.parts[st.parts].frame] = r.simulation.clock.now
	}
}

// acknowledge sends an ACK for every other packet, at once for one that comes after a gap, and after max_ack_delay
// otherwise (RFC 9000 §13.2).
func (r *receiver) acknowledge(gap bool) {
	r.unacked++
	switch {
	case r.unacked >= 2 || gap:
		r.sendACK()
	case !r.ackPlanned:
		r.ackPlanned = true
		r.simulation.plan(r.simulation.clock.now.Add(maxAckDelay), func() {
			r.ackPlanned = false
			if r.unacked > 0 {
				r.sendACK()
			}
		})
	}
}

// maxRanges is how many ranges an ACK has at most, as in many implementations.
const maxRanges = 32

func (r *receiver) sendACK() {
	r.unacked = 0
	var ranges []quic.AckRange
	for i := len(r.numbers) - 1; i >= 0 && len(ranges) < maxRanges; i-- {
		ranges = append(ranges, quic.AckRange{Smallest: r.numbers[i].from, Largest: r.numbers[i].to - 1})
	}
	s := r.simulation
	s.back(func() {
		_, err := s.sender.Acked(&quic.AckInfo{Ranges: ranges, Received: s.clock.Wall()})
		s.fail(err)
	})
}

// content is the content of a packet that matters to a subscriber. A packet of the media sender has one frame.
type content struct {
	stream   bool // a part of a stream
	id       int64
	from, to int64
	data     []byte
}

var errFrame = errors.New("a frame is cut off")

// parseContent parses a payload.
func parseContent(b []byte) (c content, err error) {
	next := func() (v uint64) {
		var n int
		if err == nil {
			if v, n, err = quicvarint.Parse(b); err == nil {
				b = b[n:]
			}
		}
		return v
	}
	kind := next()
	if kind == packet.FrameImmediateAck {
		kind = next()
	}
	if err != nil || kind&^7 != packet.FrameStream {
		return c, err
	}
	c.stream, c.id = true, int64(next())
	if kind&packet.FrameStreamOffset != 0 {
		c.from = int64(next())
	}
	if err != nil {
		return c, errFrame
	}
	c.to, c.data = c.from+int64(len(b)), b
	return c, nil
}
