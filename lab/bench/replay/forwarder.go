package replay

import (
	"slices"

	"sluice/claim"
	"sluice/internal/packet"
)

// forwarder stands for the fast path: it gets the publisher's packets before the media sender gets their bytes, and
// sends or declines each of them by the claim protocol and the rule that both senders share. The media sender gets to
// them in the same moment, and no ACKs are taken from it. Package fastpath tests the kernel's programs.
type forwarder struct {
	claim.Heap
	simulation *simulation
	conn       *claim.ConnState
	ledger     claim.Ledger
	streams    map[int64]*claim.StreamState // by the id of the publisher's stream
	sent       int                          // copies
	declined   int
}

func newForwarder(s *simulation) *forwarder {
	return &forwarder{
		simulation: s, conn: new(claim.ConnState), ledger: make(claim.Ledger, claim.LedgerLen),
		streams: make(map[int64]*claim.StreamState),
	}
}

// NewConn implements [claim.Memory]. There is one connection.
func (f *forwarder) NewConn() *claim.ConnState { return f.conn }

// Ledger implements [claim.Memory].
func (f *forwarder) Ledger(_ *claim.ConnState, n int) []claim.Record {
	if n > len(f.ledger) {
		return nil
	}
	return f.ledger
}

// Connect implements [claim.Forwarder].
func (f *forwarder) Connect(*claim.ConnState, func(*claim.StreamState)) claim.ForwarderConn { return f }

// OpenStream implements [claim.ForwarderConn].
func (f *forwarder) OpenStream(from *claim.PublisherStream) (state *claim.StreamState, adopted bool) {
	if st := f.streams[from.StreamID]; st != nil {
		return st, true
	}
	st := new(claim.StreamState)
	f.streams[from.StreamID] = st
	return st, false
}

// The rest of [claim.ForwarderConn] changes nothing here.

func (f *forwarder) ConnectionID([]byte, bool)           {}
func (f *forwarder) Received(int64)                      {}
func (f *forwarder) Acknowledged()                       {}
func (f *forwarder) ReadKeys(uint64, *claim.PacketKeys)  {}
func (f *forwarder) WriteKeys(uint64, *claim.PacketKeys) {}
func (f *forwarder) SetSession(claim.Session)            {}
func (f *forwarder) SetPath(claim.Path)                  {}
func (f *forwarder) CloseStream(*claim.StreamState)      {}
func (f *forwarder) Close()                              {}

// published is how many bytes of a stream the publisher's packets have at most. With the headers of a copy that is a
// packet of the largest size.
const published = mtu - 42

// offer offers bytes of a publisher's stream, from a log offset on, in the publisher's packets.
func (f *forwarder) offer(g *subgroup, level uint32, from int64, data []byte) {
	for len(data) > 0 {
		n := min(published, len(data))
		if f.forward(g, level, from, data[:n]) {
			f.sent++
		} else {
			f.declined++
		}
		from, data = from+int64(n), data[n:]
	}
}

// forward sends a copy, or declines it. The first one opens a stream.
func (f *forwarder) forward(g *subgroup, level uint32, from int64, data []byte) bool {
	st := f.streams[g.number]
	if st != nil {
		next, closed := st.Cursor()
		return !closed && next == from && st.Phase.Load() == claim.StreamOpen && f.send(st, from, from, data)
	}
	a := claim.Admission{Level: level, Now: f.simulation.clock.now}
	if from != 0 || f.conn.Admit(a) != claim.Admitted {
		return false
	}
	st = new(claim.StreamState)
	id, _ := f.conn.TakeStream() // there are more than enough
	st.ID.Store(uint64(id))
	st.Delta.Store(uint64(len(g.prefix)))
	st.Limit.Store(noLimit)
	st.Level.Store(level)
	st.Phase.Store(claim.StreamAbandoned)
	f.streams[g.number] = st
	sent := f.send(st, 0, -int64(len(g.prefix)), slices.Concat(g.prefix, data))
	if sent {
		st.Phase.Store(claim.StreamOpen)
	}
	return sent
}

// send sends a copy with data, which begins at a log offset, or before the log with the prefix of its stream.
func (f *forwarder) send(st *claim.StreamState, from, begin int64, data []byte) bool {
	s, now := f.conn, f.simulation.clock.now
	id, offset := int64(st.ID.Load()), begin+st.Shift()
	overhead := 1 + connIDLength + packet.NumberLength + packet.StreamHeaderLength(id, offset) + packet.TagLength
	size := overhead + len(data)
	v := s.Admit(claim.Admission{Level: st.Level.Load(), Size: size, Now: now})
	if v == claim.WindowFull || v == claim.Paced {
		s.LimitedTo.Store(s.NextPN.Load() & claim.NumberMask)
	}
	if v != claim.Admitted || !s.Room(f.ledger) {
		return false
	}
	number, _, _ := s.Begin(f.ledger)
	s.TakeData(int64(len(data)), true, 0)
	st.Claim(from, begin+int64(len(data)), false)
	s.Charge(size, now)
	s.Commit(f.ledger, number, now, offset, claim.NewInfo(uint32(id/4), len(data), overhead, claim.KindStream))
	s.Packets.Add(1)
	s.Bytes.Add(uint64(size))
	c := content{stream: true, id: id, from: offset, to: offset + int64(len(data)), data: data}
	f.simulation.sent++
	f.simulation.transmit(size, func() { f.simulation.receiver.got(int64(number), c) })
	return true
}
