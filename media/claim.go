package media

// The claim protocol: how several senders send on one connection without a lock. To send the bytes [from, to) of a stream for the first
// time, a sender
//
//  1. looks: what can be checked without taking anything (state, priority, window, limits, size) is checked first;
//  2. begins: it announces itself in Writers and takes a packet number;
//  3. takes: connection credit, and then the bytes, by compare-and-swap of Next. If it loses a race here it gives back what it took
//     and aborts: the packet number stays unused, which QUIC allows;
//  4. commits: it writes the record and leaves Writers. From here on the packet counts as sent, whatever happens to it;
//  5. builds the packet and sends it.
//
// So every byte is claimed once (I1), a number is used once and under the key of its generation (I2), a packet has its record before
// it can be acknowledged (I3), and nothing is claimed that is not recorded. Writers lets the reader of the ledger tell a number that
// was never used from one whose record is still to come: see settled.

const (
	generationShift = 62
	numberMask      = 1<<generationShift - 1
)

// begin takes a packet number and its key generation. The caller must then abort or commit. It fails if the record would overwrite
// one that is still needed; a second sender keeps well below that (see room).
func (s *SubscriberState) begin(l ledger) (number, generation uint64, ok bool) {
	s.Writers.Add(1)
	w := s.NextPN.Add(1) - 1
	number, generation = w&numberMask, w>>generationShift
	if number-s.LedgerLow.Load() >= uint64(len(l)) {
		s.abort()
		return 0, 0, false
	}
	return number, generation, true
}

func (s *SubscriberState) abort() { s.Writers.Add(^uint32(0)) }

// commit records the packet.
func (s *SubscriberState) commit(l ledger, number uint64, sent Time, offset int64, i info) {
	s.InFlight.Add(uint64(i.size()))
	l.write(number, sent, offset, i)
	s.Writers.Add(^uint32(0))
}

// room says if the ledger has room for more packets, with a reserve for numbers that others take in the meantime.
func (s *SubscriberState) room(l ledger) bool {
	return s.NextPN.Load()&numberMask-s.LedgerLow.Load() < uint64(len(l)-len(l)/4)
}

// settled returns a number below which all records are written, or 0 if that is not known now.
func (s *SubscriberState) settled() uint64 {
	next := s.NextPN.Load() & numberMask
	if s.Writers.Load() != 0 {
		return 0
	}
	return next
}

// fits says if the congestion window has room for n more bytes.
func (s *SubscriberState) fits(n int) bool {
	return int64(s.InFlight.Load())+int64(n) <= int64(s.Window.Load())
}

// takeData takes up to n bytes (with all: n or nothing) of the connection's flow control credit, which for quic-go includes the reserve.
func (s *SubscriberState) takeData(n int64, all bool, reserve uint64) int64 {
	for {
		sent := s.DataSent.Load()
		m := min(n, int64(s.DataLimit.Load()+reserve-sent))
		if m <= 0 || all && m < n {
			return 0
		}
		if s.DataSent.CompareAndSwap(sent, sent+uint64(m)) {
			return m
		}
	}
}

func (s *SubscriberState) returnData(n int64) { s.DataSent.Add(uint64(-n)) }

func (s *SubscriberState) dataAvailable() int64 {
	return int64(s.DataLimit.Load() - s.DataSent.Load())
}

// setDataLimit sets the limit, of which the reserve is kept back. Limits do not fall.
func (s *SubscriberState) setDataLimit(n int64) (raised bool) {
	reserve := s.Reserve.Load()
	if uint64(n) <= s.DataLimit.Load()+reserve {
		return false
	}
	s.DataLimit.Store(uint64(n) - reserve)
	return true
}

// takeStream takes the id of a unidirectional stream, unless the peer's limit is reached.
func (s *SubscriberState) takeStream() (id int64, ok bool) {
	for {
		id := s.NextUni.Load()
		if id/4 >= s.MaxUni.Load() {
			return 0, false
		}
		if s.NextUni.CompareAndSwap(id, id+4) {
			return int64(id), true
		}
	}
}

// claim takes the bytes [from, to), and with last the right to send FIN.
func (st *StreamState) claim(from, to int64, last bool) bool {
	next := uint64(to)
	if last {
		next |= closedBit
	}
	return st.Next.CompareAndSwap(uint64(from), next)
}

// close ends claiming and returns the upstream offset up to which bytes were claimed.
func (st *StreamState) close() (next int64) {
	for {
		next := st.Next.Load()
		if next&closedBit != 0 || st.Next.CompareAndSwap(next, next|closedBit) {
			return int64(next &^ closedBit)
		}
	}
}

// next returns the claim cursor, and whether claiming has ended.
func (st *StreamState) next() (offset int64, closed bool) {
	n := st.Next.Load()
	return int64(n &^ closedBit), n&closedBit != 0
}

func (st *StreamState) delta() int64 { return int64(st.Delta.Load()) }
