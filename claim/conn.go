package claim

import (
	"sluice/clock"
	"sluice/congestion"
)

// ConnState is the state that both senders of one connection share. It has the layout of struct conn_state in the
// kernel's programs. Each group of fields is a cache line.
type ConnState struct {
	// Changed by every packet.
	NextPN   Word   // key generation << GenerationShift | NumbersClosed, once the state has moved | next packet number
	InFlight Word   // bytes that were sent and are neither acknowledged nor lost
	DataSent Word   // connection flow control credit that is used, in bytes
	NextUni  Word   // id of the next unidirectional stream
	Writers  Word32 // senders that have taken a packet number and not yet written its record
	Slots    Word32 // streams whose states the forwarder has provided; only the forwarder counts them
	BucketAt Word   // when the bucket is full, see Bucket
	PacedAt  Word   // when the pacer's bucket is full, see [congestion.Pacer]
	_        [8]byte

	// Limits, which only the media sender sets.
	Window    Word   // congestion window in bytes
	DataLimit Word   // connection flow control limit in bytes (MAX_DATA), less Reserve
	MaxUni    Word   // number of unidirectional streams that the peer allows (MAX_STREAMS)
	LedgerLow Word   // records of packets from this number on must not be overwritten
	Threshold Word32 // streams of higher levels are not sent
	MTU       Word32 // size of the largest QUIC packet in bytes; 0: no packet may be sent
	Reserve   Word   // connection credit that only quic-go may use, so that control streams always have some
	// The drop policy's bucket, see Bucket.
	Bounds      Word   // of its classes: four levels of 16 bits
	BucketCost  Word32 // nanoseconds in which the bucket fills by 1024 bytes; 0: there is no bucket
	BucketBurst Word32 // microseconds in which it gets full

	// Counted by the senders.
	Packets   Word // sent by either sender, without quic-go's
	Bytes     Word
	LimitedTo Word // packets with lower numbers were sent while window or pacing held data back
	// Found out about the path by the media sender.
	ECN       Word32 // of the IP headers of packets that are sent (RFC 3168 §5): ECT0, ECT1 or 0
	PaceCost  Word32 // of the pacer
	PaceBurst Word32
	PaceWaits Word32 // the media sender has data that pacing holds back: the forwarder leaves the pacer's tokens to it
	_         [24]byte
}

// TakeNumber takes a packet number for a packet without a record. It fails if the numbers go on elsewhere, see
// [ConnState.MoveTo].
func (s *ConnState) TakeNumber() (number uint64, ok bool) {
	w := s.NextPN.Add(1) - 1
	return w & NumberMask, w&NumbersClosed == 0
}

// Begin announces the caller in Writers and takes a packet number with its key generation. The caller must then abort
// or commit. Begin fails, and announces nothing, if the numbers go on elsewhere, or if the record of the packet would
// overwrite one that is still needed. The forwarder keeps well below that, see [ConnState.Room].
func (s *ConnState) Begin(l Ledger) (number, generation uint64, ok bool) {
	s.Writers.Add(1)
	w := s.NextPN.Add(1) - 1
	number, generation = w&NumberMask, w>>GenerationShift
	if w&NumbersClosed != 0 || number-s.LedgerLow.Load() >= uint64(len(l)) {
		s.Abort()
		return 0, 0, false
	}
	return number, generation, true
}

// Abort leaves Writers without a record: the packet number stays unused.
func (s *ConnState) Abort() { s.Writers.Add(^uint32(0)) }

// Commit writes the record of a packet, counts its bytes as in flight, and leaves Writers.
func (s *ConnState) Commit(l Ledger, number uint64, sent clock.Time, offset int64, i Info) {
	s.InFlight.Add(uint64(i.Size()))
	l.Write(number, sent, offset, i)
	s.Writers.Add(^uint32(0))
}

// Room reports whether the ledger has room for more packets. It keeps a quarter in reserve for packet numbers that
// others take at the same time.
func (s *ConnState) Room(l Ledger) bool {
	return s.NextPN.Load()&NumberMask-s.LedgerLow.Load() < uint64(len(l)-len(l)/4)
}

// Settled returns a packet number below which every record is written, or 0 while a sender is about to write one.
func (s *ConnState) Settled() uint64 {
	next := s.NextPN.Load() & NumberMask
	if s.Writers.Load() != 0 {
		return 0
	}
	return next
}

// Fits reports whether the congestion window has room for n more bytes.
func (s *ConnState) Fits(n int) bool {
	return int64(s.InFlight.Load())+int64(n) <= int64(s.Window.Load())
}

// Pacer returns the pacer of both senders.
func (s *ConnState) Pacer() congestion.Pacer {
	return congestion.Pacer{Cost: s.PaceCost.Load(), Burst: s.PaceBurst.Load()}
}

// SetPacer changes the pacer. The tokens that are there stay.
func (s *ConnState) SetPacer(p congestion.Pacer, now clock.Time) {
	if old := s.Pacer(); p != old {
		old.Refill(&s.PacedAt, now, p)
		s.PaceBurst.Store(p.Burst)
		s.PaceCost.Store(p.Cost)
	}
}

// Paced reports whether pacing holds packets back.
func (s *ConnState) Paced(now clock.Time) bool { return !s.Pacer().Ready(&s.PacedAt, now) }

// TakeData takes up to n bytes of the connection's flow control credit, or with all exactly n or nothing. It returns
// how many it has taken. reserve is how much of Reserve the caller may use: all of it for quic-go, 0 for the two
// senders.
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

// ReturnData gives back n bytes of credit that TakeData took.
func (s *ConnState) ReturnData(n int64) { s.DataSent.Add(uint64(-n)) }

// DataAvailable returns how many bytes of credit the two senders have left.
func (s *ConnState) DataAvailable() int64 {
	return int64(s.DataLimit.Load() - s.DataSent.Load())
}

// SetDataLimit sets the connection flow control limit to n bytes, Reserve included, and reports whether that is more
// than before. A lower limit has no effect (RFC 9000 §19.9).
func (s *ConnState) SetDataLimit(n int64) (raised bool) {
	reserve := s.Reserve.Load()
	if uint64(n) <= s.DataLimit.Load()+reserve {
		return false
	}
	s.DataLimit.Store(uint64(n) - reserve)
	return true
}

// TakeStream takes the id of a unidirectional stream. It fails if the peer's limit is reached.
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

// MoveTo copies the state to where a forwarder shares it, or back. The packet numbers go on in to, from the next number
// of s on. A sender that still takes a number from s, such as a forwarder in the middle of a packet, learns by the same
// operation that it must not use that number. Its other changes of s are lost, which does not matter at the end of a
// connection. No other goroutine may change to meanwhile.
func (s *ConnState) MoveTo(to *ConnState) {
	to.NextPN.Store(s.NextPN.Or(NumbersClosed))
	for _, w := range [...]struct{ to, from *Word }{
		{&to.InFlight, &s.InFlight}, {&to.DataSent, &s.DataSent}, {&to.NextUni, &s.NextUni},
		{&to.Window, &s.Window}, {&to.DataLimit, &s.DataLimit}, {&to.MaxUni, &s.MaxUni}, {&to.LedgerLow, &s.LedgerLow},
		{&to.Reserve, &s.Reserve}, {&to.BucketAt, &s.BucketAt}, {&to.Bounds, &s.Bounds},
		{&to.PacedAt, &s.PacedAt},
		{&to.Packets, &s.Packets}, {&to.Bytes, &s.Bytes}, {&to.LimitedTo, &s.LimitedTo},
	} {
		w.to.Store(w.from.Load())
	}
	for _, w := range [...]struct{ to, from *Word32 }{
		{&to.Slots, &s.Slots}, {&to.Threshold, &s.Threshold}, {&to.MTU, &s.MTU},
		{&to.BucketCost, &s.BucketCost}, {&to.BucketBurst, &s.BucketBurst}, {&to.ECN, &s.ECN},
		{&to.PaceCost, &s.PaceCost}, {&to.PaceBurst, &s.PaceBurst}, {&to.PaceWaits, &s.PaceWaits},
	} {
		w.to.Store(w.from.Load())
	}
}

// Admit decides whether a packet may go now. It changes nothing. The media sender asks it about objects, with Size 0,
// when they begin, and asks [ConnState.Fits] and [ConnState.Paced] for packets, because packets with lost bytes go at
// any level. Only the forwarder asks Admit about packets: the media sender's data goes first, see PaceWaits. For the
// media sender sleeps until pacing has tokens for a whole packet, and a forwarder, which comes with each of the
// publisher's packets and needs one token, would always be faster.
func (s *ConnState) Admit(a Admission) Verdict {
	switch {
	case a.Level > s.Threshold.Load():
		return BeyondThreshold
	case !s.Affords(a.Level, a.Now):
		return BucketLow
	case a.Size == 0:
		return Admitted
	case a.Size > int(s.MTU.Load()):
		return TooLarge
	case !s.Fits(a.Size):
		return WindowFull
	case s.PaceWaits.Load() != 0 || s.Paced(a.Now):
		return Paced
	}
	return Admitted
}

// SetBucket changes the bucket. Bytes that were taken from it stay taken.
func (s *ConnState) SetBucket(b Bucket) {
	if b.Rate <= 0 {
		s.BucketCost.Store(0)
		return
	}
	var bounds uint64
	for i, level := range b.Bounds {
		bounds |= uint64(level) << (16 * i)
	}
	s.Bounds.Store(bounds)
	s.BucketBurst.Store(uint32(min(b.Burst*1e6/b.Rate, maxBucket)))
	s.BucketCost.Store(uint32(min(max(1024*1e9/b.Rate, 1), maxBucket)))
}

// FillBucket makes the bucket filled by so many parts of 256.
func (s *ConnState) FillBucket(now clock.Time, parts int) {
	burst := uint64(s.BucketBurst.Load()) * 1000
	s.BucketAt.Store(uint64(now) + burst*uint64(256-parts)/256)
}

// Class returns the class of a level.
func (s *ConnState) Class(level uint32) (class int) {
	for bounds := s.Bounds.Load(); class < 4 && level > uint32(bounds&0xffff); class++ {
		bounds >>= 16
	}
	return class
}

// BucketLevel returns how full the bucket is, and when it is full, in nanoseconds of its rate.
func (s *ConnState) BucketLevel(now clock.Time) (level, burst int64) {
	burst = int64(s.BucketBurst.Load()) * 1000
	return int64(now) + burst - int64(s.BucketAt.Load()), burst
}

// Affords reports whether the bucket has bytes for a level. One byte is enough, so that a packet goes whole.
func (s *ConnState) Affords(level uint32, now clock.Time) bool {
	if s.BucketCost.Load() == 0 {
		return true
	}
	class := s.Class(level)
	if class == 0 {
		return true
	}
	filled, burst := s.BucketLevel(now)
	return filled > burst*int64(class-1)/4
}

// Charge takes the bytes of a packet from the bucket, and from the pacer's.
func (s *ConnState) Charge(n int, now clock.Time) {
	s.Pacer().Spend(&s.PacedAt, now, n)
	Take(&s.BucketAt, s.BucketCost.Load(), s.BucketBurst.Load(), n, now)
}
