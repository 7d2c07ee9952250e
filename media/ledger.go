package media

import (
	"sluice/claim"
	"sluice/clock"
)

// ledger takes packet numbers for the media sender, and holds the records of what both senders have sent. It is
// guarded by the sender's lock.
type ledger struct {
	state   *claim.ConnState
	shared  claim.ForwarderConn   // provides the records; nil: the heap
	random  func(n uint64) uint64 // a number below n
	records claim.Ledger          // nil until something is to be sent
	low     uint64                // packets below it are neither outstanding nor to come
	settled uint64                // records of packets below it are written
	skipAt  uint64                // the next packet number from here on that user space can take is not used, see skip
	mtu     int                   // size of the largest packet on the path, in bytes
}

const (
	firstLedger = 128     // records: 4 KiB, enough for 1 Mbit/s on most paths
	idleLedger  = 1024    // records that a silent sender keeps
	maxLedger   = 1 << 15 // records
)

// next returns the next packet number.
func (l *ledger) next() uint64 { return l.state.NextPN.Load() & claim.NumberMask }

// begin takes a packet number, and enlarges the ledger before if necessary. It skips a number if that is due.
func (l *ledger) begin(now clock.Time) (number, generation uint64, ok bool) {
	for {
		number, generation, ok = l.state.Begin(l.records)
		switch {
		case !ok && !l.grow():
			return 0, 0, false
		case !ok:
		case number < l.skipAt:
			return number, generation, true
		default:
			l.skipped(now, number)
		}
	}
}

// skip skips a packet number if that is due: the forwarder, which skips none, may be the only one that sends. Now and
// then a number is skipped, because a peer that acknowledges packets that it cannot have received would gain an unfair
// share of the path (RFC 9000 §21.4).
func (l *ledger) skip(now clock.Time) {
	if !l.skipDue() {
		return
	}
	if number, _, ok := l.state.Begin(l.records); ok {
		l.skipped(now, number)
	}
}

// skipDue reports whether a packet number should be skipped.
func (l *ledger) skipDue() bool { return len(l.records) > 0 && l.next() >= l.skipAt }

// skipped records that the packet number, which begin has taken, is not used.
func (l *ledger) skipped(now clock.Time, number uint64) {
	l.commit(now, number, 0, claim.NewInfo(0, 0, 0, claim.KindSkipped))
	l.skipAt = number + l.skipInterval()
}

func (l *ledger) skipInterval() uint64 { return 500 + l.random(5000) }

// commit writes the record of a packet whose number begin has returned.
func (l *ledger) commit(now clock.Time, number uint64, offset int64, i claim.Info) {
	if l.state.ECN.Load() != 0 {
		i = i.With(claim.FlagMarked)
	}
	l.state.Commit(l.records, number, now, offset, i)
}

// makeRoom reports whether there is room for a packet, and makes room if it can. quic-go's packets have no records, but
// their numbers move the range that the ledger covers.
func (l *ledger) makeRoom() bool {
	if len(l.records) == 0 {
		return l.grow()
	}
	if l.state.Room(l.records) {
		return true
	}
	l.advance(l.next())
	return l.state.Room(l.records) || l.grow()
}

// grow doubles the ledger, unless the forwarder shares it: that ledger has one size.
func (l *ledger) grow() bool {
	var ring claim.Ledger
	switch n := max(2*len(l.records), firstLedger); {
	case l.shared == nil && n <= maxLedger:
		ring = make(claim.Ledger, n)
	case l.shared != nil && len(l.records) == 0:
		ring = l.shared.Ledger()
	}
	if ring == nil {
		return false
	}
	next := l.next()
	if l.records == nil {
		l.low, l.settled = next, next
		l.state.LedgerLow.Store(next)
		l.skipAt = next + l.skipInterval()
	}
	l.records = l.records.Grown(ring, l.low, next)
	l.setMTU(l.mtu)
	return true
}

// setMTU sets the size of the largest packet. The forwarder may send as soon as it sees one, and needs the ledger then.
func (l *ledger) setMTU(mtu int) {
	l.mtu = mtu
	if len(l.records) > 0 {
		l.state.MTU.Store(uint32(mtu))
	}
}

// shrink gives a large ledger back that has nothing outstanding: bursts are rare, subscribers many.
func (l *ledger) shrink() {
	if len(l.records) > idleLedger && l.shared == nil {
		l.records = nil
	}
}

// advance moves low up to the first packet that is outstanding or whose record may still come.
func (l *ledger) advance(next uint64) {
	l.settled = max(l.settled, min(l.state.Settled(), next))
	low := l.low
	for low < l.settled {
		if e, ok := l.records.Read(low); ok && e.Live() {
			break
		}
		low++
	}
	if low != l.low {
		l.low = low
		l.state.LedgerLow.Store(low)
	}
}

// outstanding reports whether there are packets that are neither acknowledged nor lost, or are just being sent.
func (l *ledger) outstanding() bool {
	return l.isWriting() || l.sent() // in this order: a sender counts its packet before it leaves Writers
}

// isWriting reports whether a sender has taken a packet number, and its record is to come.
func (l *ledger) isWriting() bool { return l.state.Writers.Load() != 0 }

// sent reports whether there are packets with records that are neither acknowledged nor lost.
func (l *ledger) sent() bool { return l.low < l.settled || int64(l.state.InFlight.Load()) > 0 }

// newestSent returns when the last packet was sent, by whichever sender.
func (l *ledger) newestSent(next uint64) clock.Time {
	for n := next; n > l.low; n-- {
		if e, ok := l.records.Read(n - 1); ok && e.Kind() != claim.KindSkipped {
			return e.Sent
		}
	}
	return 0
}

// forgetPath takes outstanding packets out of flight: they are on another path.
func (l *ledger) forgetPath() {
	next := l.next()
	for n := l.low; n < next; n++ {
		if e, ok := l.records.Read(n); ok && e.Live() && !e.Uncounted() {
			l.records.Mark(e, claim.FlagOldPath)
			l.state.InFlight.Add(uint64(-e.Size()))
		}
	}
	l.advance(next)
}
