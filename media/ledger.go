package media

// ledger is the ring of records of sent packets, indexed by packet number modulo its length, a power of two. Any sender writes; only
// the Sender reads and marks.
type ledger []Record

func (l ledger) at(number uint64) *Record { return &l[number&uint64(len(l)-1)] }

func (l ledger) clear() {
	for i := range l {
		l[i].PN.Store(noPacket)
	}
}

func (l ledger) write(number uint64, sent Time, offset int64, i info) {
	r := l.at(number)
	r.PN.Store(noPacket)
	r.Sent.Store(uint64(sent))
	r.Offset.Store(uint64(offset))
	r.Info.Store(uint64(i))
	r.PN.Store(number)
}

// entry is a copy of a record.
type entry struct {
	number uint64
	sent   Time
	offset int64
	info
}

// read returns the record of a packet, unless it was sent by quic-go, never used, or overwritten.
func (l ledger) read(number uint64) (entry, bool) {
	r := l.at(number)
	if r.PN.Load() != number {
		return entry{}, false
	}
	e := entry{number, Time(r.Sent.Load()), int64(r.Offset.Load()), info(r.Info.Load())}
	return e, r.PN.Load() == number
}

// mark adds flags to the record of e. It fails if the record was overwritten in the meantime: a new record differs from e, which
// was marked before, in its flags at least.
func (l ledger) mark(e entry, flags uint8) {
	l.at(e.number).Info.CompareAndSwap(uint64(e.info), uint64(e.with(flags)))
}

// grown copies the records [low, next) to a larger ring.
func (l ledger) grown(to ledger, low, next uint64) ledger {
	to.clear()
	for n := low; n < next; n++ {
		if e, ok := l.read(n); ok {
			to.write(n, e.sent, e.offset, e.info)
		}
	}
	return to
}
