package rtsp

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/format"

	shared "sluice/clock"
)

// incoming follows the packets of a publisher.
type incoming struct {
	last   map[format.Format]*lastTaken // nil: it does not use SRTP
	latest atomic.Int64                 // clock.Time of the last packet or RECORD: the wall clock may step
	sends  atomic.Bool                  // it is between RECORD and PAUSE
	failed atomic.Bool                  // the session ends
}

// silence is how long a publisher sends nothing until it seems to be lost.
const silence = 2 * time.Second

// isLost reports whether packets are missing that the publisher should have sent.
func (i *incoming) isLost(now shared.Time) bool {
	return i.sends.Load() && now.Sub(shared.Time(i.latest.Load())) >= silence
}

// lastTaken is the packet of an SSRC that was taken last.
type lastTaken struct {
	begun  bool
	number uint16
}

// passes reports whether a packet is newer than all before, and notes it. Without SRTP, on a nil lastTaken, all are.
// The library decrypts a packet that somebody has recorded and sends again, and after 64 that are not newer it goes on
// with these: an old picture would take the place of the live one. RFC 3711 §3.3.2 wants each packet to be taken once.
// Packets older than 32,768 others do not get here: both ends count them as later ones, so they cannot be decrypted.
func (l *lastTaken) passes(number uint16) bool {
	if l == nil {
		return true
	}
	if l.begun && int16(number-l.number) <= 0 {
		return false
	}
	l.begun, l.number = true, number
	return true
}

// begin is called for RECORD, also after PAUSE: the keys stay then, and so does the state of taken packets.
func (i *incoming) begin(now shared.Time, srtp bool) {
	i.latest.Store(int64(now))
	i.sends.Store(true)
	if srtp && i.last == nil {
		i.last = make(map[format.Format]*lastTaken)
	}
}

func (i *incoming) of(f format.Format) *lastTaken {
	if i.last != nil && i.last[f] == nil {
		i.last[f] = new(lastTaken)
	}
	return i.last[f]
}

// errUndecryptable is why a publisher by SRTP ends.
var errUndecryptable = errors.New("its SRTP packets cannot be decrypted: they have another key than SETUP has told, " +
	"or another SSRC than the first packet from its address and port")
