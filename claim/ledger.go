package claim

import "sluice/clock"

// Ledger is the ring of records of the packets that were sent, indexed by packet number modulo its length, a power of
// two. Both senders write records. Only the media sender reads and marks them.
type Ledger []Record

func (l Ledger) at(number uint64) *Record { return &l[number&uint64(len(l)-1)] }

// Clear removes all records.
func (l Ledger) Clear() {
	for i := range l {
		l[i].PN.Store(NoPacket)
	}
}

// Write writes the record of a packet. The number is removed first and written last, so that a reader that finds the
// same number before and after it has read the rest has read one record.
func (l Ledger) Write(number uint64, sent clock.Time, offset int64, i Info) {
	r := l.at(number)
	r.PN.Store(NoPacket)
	r.Sent.Store(uint64(sent))
	r.Offset.Store(uint64(offset))
	r.Info.Store(uint64(i))
	r.PN.Store(number)
}

// Entry is a copy of a record.
type Entry struct {
	Number uint64
	Sent   clock.Time
	Offset int64 // stream offset of the data
	Info
}

// Read returns the record of a packet. It fails if quic-go has sent the packet, if the number was not used, or if the
// record was overwritten.
func (l Ledger) Read(number uint64) (Entry, bool) {
	r := l.at(number)
	if r.PN.Load() != number {
		return Entry{}, false
	}
	e := Entry{number, clock.Time(r.Sent.Load()), int64(r.Offset.Load()), Info(r.Info.Load())}
	return e, r.PN.Load() == number
}

// Mark adds flags to the record of e, unless the record was overwritten in the meantime. A newer record has another
// Info than e: it does not have e's marks, or it is of another packet.
func (l Ledger) Mark(e Entry, flags uint8) {
	l.at(e.Number).Info.CompareAndSwap(uint64(e.Info), uint64(e.With(flags)))
}

// Grown copies the records of the packets from low up to next to a larger ring, and returns that.
func (l Ledger) Grown(to Ledger, low, next uint64) Ledger {
	to.Clear()
	for n := low; n < next; n++ {
		if e, ok := l.Read(n); ok {
			to.Write(n, e.Sent, e.Offset, e.Info)
		}
	}
	return to
}
