package rtsp

import (
	"errors"
	"sync/atomic"

	"github.com/bluenviron/gortsplib/v5/pkg/format"

	shared "sluice/clock"
)

// arrivals are the packets of a publisher by SRTP.
type arrivals struct {
	newest map[format.Format]*newest // nil: it does not use SRTP
	latest atomic.Int64              // when a packet was taken, or RECORD came, as clock.Time: the wall clock may step
	failed atomic.Bool               // the session ends
}

// newest is the newest packet of an SSRC.
type newest struct {
	begun  bool
	number uint16
}

// passes reports whether a packet is newer than all before, and notes it. Without SRTP, on a nil newest, all are. The
// library decrypts a packet that somebody has recorded and sends again, and after 64 that are not newer it goes on with
// these: an old picture would take the place of the live one. RFC 3711 §3.3.2 wants each packet to be taken once.
// Packets older than 32,768 others do not get here: both ends count them as later ones, so they cannot be decrypted.
func (n *newest) passes(number uint16) bool {
	if n == nil {
		return true
	}
	if n.begun && int16(number-n.number) <= 0 {
		return false
	}
	n.begun, n.number = true, number
	return true
}

// begin is called for RECORD, also after PAUSE: the keys stay then, and so does what was taken.
func (a *arrivals) begin(now shared.Time, srtp bool) {
	a.latest.Store(int64(now))
	if srtp && a.newest == nil {
		a.newest = make(map[format.Format]*newest)
	}
}

func (a *arrivals) of(f format.Format) *newest {
	if a.newest != nil && a.newest[f] == nil {
		a.newest[f] = new(newest)
	}
	return a.newest[f]
}

// errUndecryptable is why a publisher by SRTP ends.
var errUndecryptable = errors.New("its SRTP packets cannot be decrypted: they have another key than SETUP has told, " +
	"or another SSRC than the first packet from its address and port")

// undecryptable ends the session if nothing but such packets came for as long as a publisher may be silent. The library
// takes each for a sign of life.
func (p *publisher) undecryptable() {
	silent := p.stream.clock.Now().Sub(shared.Time(p.arrivals.latest.Load()))
	if silent < p.server.cfg.ReadTimeout || !p.arrivals.failed.CompareAndSwap(false, true) {
		return
	}
	p.server.log.Warn("a publisher by RTSP has to leave", "namespace", p.namespace, "remote", p.address,
		"err", errUndecryptable)
	p.session.Close()
}
