package claim

// Record says what a packet carried: the ledger's entry at its packet number modulo the ledger's length.
type Record struct {
	PN     Word // written last; noPacket while the rest changes
	Sent   Word // a Time
	Offset Word // stream offset
	Info   Word // an info
}

const noPacket = 1<<64 - 1

// info is Record.Info: stream number (id / 4) in 32 bits, data length in 16, packet length minus data length in 8, flags in 8.
type Info uint64

func NewInfo(stream uint32, length, overhead int, flags uint8) Info {
	return Info(stream) | Info(length)<<32 | Info(overhead)<<48 | Info(flags)<<56
}

func (i Info) Stream() uint32 { return uint32(i) }
func (i Info) Length() int    { return int(i >> 32 & 0xffff) }
func (i Info) Size() int      { return i.Length() + int(i>>48&0xff) }
func (i Info) flags() uint8   { return uint8(i >> 56) }
func (i Info) Kind() uint8    { return i.flags() & kindMask }

func (i Info) Has(flag uint8) bool    { return i.flags()&flag != 0 }
func (i Info) With(flag uint8) Info   { return i | Info(flag)<<56 }
func (i Info) Live() bool             { return !i.Has(FlagAcked | FlagLost) }
func (i Info) Uncounted() bool        { return i.Has(FlagOldPath) }
func (i Info) End(offset int64) int64 { return offset + int64(i.Length()) }

// Kinds of packets by their only frame, and flags.
const (
	KindStream   = 0
	KindDatagram = 1
	KindReset    = 2
	KindPing     = 3
	KindBlocked  = 4 // DATA_BLOCKED, STREAM_DATA_BLOCKED or STREAMS_BLOCKED
	KindSkipped  = 5 // never sent: an acknowledgment of it is a lie (RFC 9000 §21.4)
	kindMask     = 7

	FlagFIN     = 1 << 3
	FlagOldPath = 1 << 4 // sent on an earlier path: not counted in InFlight any more
	FlagAcked   = 1 << 5
	FlagLost    = 1 << 6
)
