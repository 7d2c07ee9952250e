package track

import (
	"sync/atomic"

	"sluice/clock"
)

// progress is how far a log has come. Nobody needs a lock to look at it.
type progress struct {
	end    atomic.Int64  // bytes before it are visible to readers
	state  atomic.Uint64 // State in the low two bits, reset code above
	origin atomic.Pointer[Origin]
	reach  atomic.Uint64 // id of the object added last
	came   atomic.Int64  // see Received
}

// End returns the offset after the last visible byte. Load State before End: the End of a log that has ended is final.
func (p *progress) End() int64 { return p.end.Load() }

// Origin returns the stream that the log goes on with, or did last.
func (p *progress) Origin() *Origin { return p.origin.Load() }

// Received returns when the packet came with the bytes that were written last, or 0 if that is not known.
func (p *progress) Received() clock.Time { return clock.Time(p.came.Load()) }

// State returns the state and, for Reset, the code of RESET_STREAM.
func (p *progress) State() (State, uint64) {
	s := p.state.Load()
	return State(s & 3), s >> 2
}

// reaches reports whether an object with an id of at least id was added, or none at all and id is 0. It takes no lock.
func (p *progress) reaches(id uint64) bool { return p.reach.Load() >= id }
