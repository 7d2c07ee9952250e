package claim

// Record says what a packet carried. It is the ledger's entry at the packet number modulo the length of the ledger. It
// has the layout of struct record in the kernel's programs.
type Record struct {
	PN     Word // written last; NoPacket while the rest changes
	Sent   Word // a clock.Time
	Offset Word // stream offset of the data
	Info   Word // an Info
}

// Info describes the only frame of a packet: the stream number (id / 4) in 32 bits, the length of the data in 16, the
// length of the rest of the packet in 8, and kind and flags in 8.
type Info uint64

// NewInfo returns an Info. length and overhead are in bytes, flags is one of the kinds with flags.
func NewInfo(stream uint32, length, overhead int, flags uint8) Info {
	return Info(stream) | Info(length)<<LengthShift | Info(overhead)<<OverheadShift | Info(flags)<<FlagsShift
}

// Stream returns the number of the stream: its id / 4.
func (i Info) Stream() uint32 { return uint32(i) }

// Length returns the length of the data in bytes.
func (i Info) Length() int { return int(i >> LengthShift & 0xffff) }

// Size returns the size of the packet in bytes.
func (i Info) Size() int { return i.Length() + int(i>>OverheadShift&0xff) }

// Kind returns the kind of the packet's frame.
func (i Info) Kind() uint8 { return uint8(i>>FlagsShift) & KindMask }

// Has reports whether one of the flags is set.
func (i Info) Has(flags uint8) bool { return uint8(i>>FlagsShift)&flags != 0 }

// With returns i with more flags.
func (i Info) With(flags uint8) Info { return i | Info(flags)<<FlagsShift }

// Live reports whether the packet is neither acknowledged nor lost.
func (i Info) Live() bool { return !i.Has(FlagAcked | FlagLost) }

// Uncounted reports whether the packet is not part of InFlight although it is live.
func (i Info) Uncounted() bool { return i.Has(FlagOldPath) }

// End returns the end of the data that begins at offset.
func (i Info) End(offset int64) int64 { return offset + int64(i.Length()) }
