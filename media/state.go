package media

import "sync/atomic"

// The state in this file may lie in memory that the kernel's programs share: the layout is fixed (little-endian, padding explicit) and
// every access is atomic.

// Word is a 64-bit value that two senders share.
type Word struct{ v atomic.Uint64 }

// Word32 is a 32-bit value that two senders share.
type Word32 struct{ v atomic.Uint32 }

// interleave, if a test sets it, is called before each access to a *Word or *Word32: so the test decides on the order of the senders'
// steps, and can try all.
var interleave func(word any)

// Load returns the value.
func (w *Word) Load() uint64 {
	if interleave != nil {
		interleave(w)
	}
	return w.v.Load()
}

// Store sets the value.
func (w *Word) Store(x uint64) {
	if interleave != nil {
		interleave(w)
	}
	w.v.Store(x)
}

// Add adds delta, which may be the two's complement of a negative number, and returns the new value.
func (w *Word) Add(delta uint64) uint64 {
	if interleave != nil {
		interleave(w)
	}
	return w.v.Add(delta)
}

// CompareAndSwap sets the value to x if it is old.
func (w *Word) CompareAndSwap(old, x uint64) bool {
	if interleave != nil {
		interleave(w)
	}
	return w.v.CompareAndSwap(old, x)
}

// Load returns the value.
func (w *Word32) Load() uint32 {
	if interleave != nil {
		interleave(w)
	}
	return w.v.Load()
}

// Store sets the value.
func (w *Word32) Store(x uint32) {
	if interleave != nil {
		interleave(w)
	}
	w.v.Store(x)
}

// Add adds delta and returns the new value.
func (w *Word32) Add(delta uint32) uint32 {
	if interleave != nil {
		interleave(w)
	}
	return w.v.Add(delta)
}

// SubscriberState is what all senders of one connection share. Its cache lines are: what every packet changes, limits, counters.
type SubscriberState struct {
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

// StreamState is what all senders of one downstream stream share.
type StreamState struct {
	Next  Word   // claim cursor: upstream offset of the first byte that nobody has sent; with closedBit none may be claimed any more
	Delta Word   // stream offset minus upstream offset, two's complement
	Limit Word   // flow control limit, a stream offset (MAX_STREAM_DATA)
	ID    Word   // QUIC stream id
	State Word32 // streamOpening, streamOpen, streamClosed
	Level Word32 // priority, see Level
	_     [24]byte
}

// closedBit in StreamState.Next ends claiming: FIN was sent, or the stream was reset.
const closedBit = 1 << 63

// States of a stream. Whoever opens a stream has it alone until the prefix is sent.
const (
	streamOpening = iota
	streamOpen
	streamClosed
	streamAbandoned // opened by a second sender that could not send the prefix
)

// Record says what a packet carried: the ledger's entry at its packet number modulo the ledger's length.
type Record struct {
	PN     Word // written last; noPacket while the rest changes
	Sent   Word // a Time
	Offset Word // stream offset
	Info   Word // an info
}

const noPacket = 1<<64 - 1

// info is Record.Info: stream number (id / 4) in 32 bits, data length in 16, packet length minus data length in 8, flags in 8.
type info uint64

func newInfo(stream uint32, length, overhead int, flags uint8) info {
	return info(stream) | info(length)<<32 | info(overhead)<<48 | info(flags)<<56
}

func (i info) stream() uint32 { return uint32(i) }
func (i info) length() int    { return int(i >> 32 & 0xffff) }
func (i info) size() int      { return i.length() + int(i>>48&0xff) }
func (i info) flags() uint8   { return uint8(i >> 56) }
func (i info) kind() uint8    { return i.flags() & kindMask }

func (i info) has(flag uint8) bool    { return i.flags()&flag != 0 }
func (i info) with(flag uint8) info   { return i | info(flag)<<56 }
func (i info) live() bool             { return !i.has(flagAcked | flagLost) }
func (i info) uncounted() bool        { return i.has(flagOldPath) }
func (i info) end(offset int64) int64 { return offset + int64(i.length()) }

// Kinds of packets by their only frame, and flags.
const (
	kindStream   = 0
	kindDatagram = 1
	kindReset    = 2
	kindPing     = 3
	kindBlocked  = 4 // DATA_BLOCKED, STREAM_DATA_BLOCKED or STREAMS_BLOCKED
	kindSkipped  = 5 // never sent: an acknowledgment of it is a lie (RFC 9000 §21.4)
	kindMask     = 7

	flagFIN     = 1 << 3
	flagOldPath = 1 << 4 // sent on an earlier path: not counted in InFlight any more
	flagAcked   = 1 << 5
	flagLost    = 1 << 6
)

// Arena allocates shared state. One that is a [SecondSender] shares it with another sender. Its methods may be called on any goroutine. What it cannot provide comes from the heap: then that
// subscriber has no second sender.
type Arena interface {
	// Subscriber and Stream return zeroed state, or nil if there is no more.
	Subscriber() *SubscriberState
	Stream() *StreamState
	// Ledger returns a ring for s of at least n records (a power of two), or nil if it has none so large. It may return the same
	// ring again; contents are undefined.
	Ledger(s *SubscriberState, n int) []Record
	// FreeSubscriber and FreeStream return state that nothing uses any more; the former with its ledger.
	FreeSubscriber(*SubscriberState)
	FreeStream(*StreamState)
}

// memory is the default Arena.
type memory struct{}

func (memory) Subscriber() *SubscriberState              { return new(SubscriberState) }
func (memory) Stream() *StreamState                      { return new(StreamState) }
func (memory) Ledger(_ *SubscriberState, n int) []Record { return make([]Record, n) }
func (memory) FreeSubscriber(*SubscriberState)           {}
func (memory) FreeStream(*StreamState)                   {}
