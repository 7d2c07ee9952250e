package claim

import "sluice/clock"

// ledger is the ring of records of sent packets, indexed by packet number modulo its length, a power of two. Any sender writes; only
// the Sender reads and marks.
type Ledger []Record

func (l Ledger) at(number uint64) *Record { return &l[number&uint64(len(l)-1)] }

func (l Ledger) Clear() {
	for i := range l {
		l[i].PN.Store(noPacket)
	}
}

func (l Ledger) Write(number uint64, sent clock.Time, offset int64, i Info) {
	r := l.at(number)
	r.PN.Store(noPacket)
	r.Sent.Store(uint64(sent))
	r.Offset.Store(uint64(offset))
	r.Info.Store(uint64(i))
	r.PN.Store(number)
}

// entry is a copy of a record.
type Entry struct {
	Number uint64
	Sent   clock.Time
	Offset int64
	Info
}

// read returns the record of a packet, unless it was sent by quic-go, never used, or overwritten.
func (l Ledger) Read(number uint64) (Entry, bool) {
	r := l.at(number)
	if r.PN.Load() != number {
		return Entry{}, false
	}
	e := Entry{number, clock.Time(r.Sent.Load()), int64(r.Offset.Load()), Info(r.Info.Load())}
	return e, r.PN.Load() == number
}

// mark adds flags to the record of e. It fails if the record was overwritten in the meantime: a new record differs from e, which
// was marked before, in its flags at least.
func (l Ledger) Mark(e Entry, flags uint8) {
	l.at(e.Number).Info.CompareAndSwap(uint64(e.Info), uint64(e.With(flags)))
}

// grown copies the records [low, next) to a larger ring.
func (l Ledger) Grown(to Ledger, low, next uint64) Ledger {
	to.Clear()
	for n := low; n < next; n++ {
		if e, ok := l.Read(n); ok {
			to.Write(n, e.Sent, e.Offset, e.Info)
		}
	}
	return to
}
