package claim

import "sluice/clock"

// SubscriberState is what all senders of one connection share. Its cache lines are: what every packet changes, limits, counters.
type ConnState struct {
	NextPN   Word   // key generation << 62 | next packet number
	InFlight Word   // bytes sent and neither acknowledged nor lost
	DataSent Word   // connection flow control credit used, in bytes
	NextUni  Word   // id of the next unidirectional stream
	Writers  Word32 // senders that have taken a packet number whose record is not yet written
	_        [28]byte

	Window    Word   // congestion window in bytes
	DataLimit Word   // connection flow control limit in bytes (MAX_DATA), less Reserve
	MaxUni    Word   // unidirectional streams allowed (MAX_STREAMS)
	LedgerLow Word   // records of packets from here on must not be overwritten
	Threshold Word32 // priority threshold: streams of higher levels are not sent
	MTU       Word32 // largest QUIC packet in bytes; 0: nothing may be sent
	Reserve   Word   // connection credit for quic-go alone: control streams must not starve
	_         [16]byte

	Packets Word // sent by any sender but quic-go
	Bytes   Word
	_       [48]byte
}

const (
	GenerationShift = 62
	NumberMask      = 1<<GenerationShift - 1
)

// begin takes a packet number and its key generation. The caller must then abort or commit. It fails if the record would overwrite
// one that is still needed; a second sender keeps well below that (see room).
func (s *ConnState) Begin(l Ledger) (number, generation uint64, ok bool) {
	s.Writers.Add(1)
	w := s.NextPN.Add(1) - 1
	number, generation = w&NumberMask, w>>GenerationShift
	if number-s.LedgerLow.Load() >= uint64(len(l)) {
		s.Abort()
		return 0, 0, false
	}
	return number, generation, true
}

func (s *ConnState) Abort() { s.Writers.Add(^uint32(0)) }

// commit records the packet.
func (s *ConnState) Commit(l Ledger, number uint64, sent clock.Time, offset int64, i Info) {
	s.InFlight.Add(uint64(i.Size()))
	l.Write(number, sent, offset, i)
	s.Writers.Add(^uint32(0))
}

// room says if the ledger has room for more packets, with a reserve for numbers that others take in the meantime.
func (s *ConnState) Room(l Ledger) bool {
	return s.NextPN.Load()&NumberMask-s.LedgerLow.Load() < uint64(len(l)-len(l)/4)
}

// settled returns a number below which all records are written, or 0 if that is not known now.
func (s *ConnState) Settled() uint64 {
	next := s.NextPN.Load() & NumberMask
	if s.Writers.Load() != 0 {
		return 0
	}
	return next
}

// fits says if the congestion window has room for n more bytes.
func (s *ConnState) Fits(n int) bool {
	return int64(s.InFlight.Load())+int64(n) <= int64(s.Window.Load())
}

// takeData takes up to n bytes (with all: n or nothing) of the connection's flow control credit, which for quic-go includes the reserve.
func (s *ConnState) TakeData(n int64, all bool, reserve uint64) int64 {
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

func (s *ConnState) ReturnData(n int64) { s.DataSent.Add(uint64(-n)) }

func (s *ConnState) DataAvailable() int64 {
	return int64(s.DataLimit.Load() - s.DataSent.Load())
}

// setDataLimit sets the limit, of which the reserve is kept back. Limits do not fall.
func (s *ConnState) SetDataLimit(n int64) (raised bool) {
	reserve := s.Reserve.Load()
	if uint64(n) <= s.DataLimit.Load()+reserve {
		return false
	}
	s.DataLimit.Store(uint64(n) - reserve)
	return true
}

// takeStream takes the id of a unidirectional stream, unless the peer's limit is reached.
func (s *ConnState) TakeStream() (id int64, ok bool) {
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
