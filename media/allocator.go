package media

import (
	"runtime"
	"sync/atomic"

	"sluice/claim"
)

// allocator takes packet numbers, stream ids and connection credit for quic-go, out of the state that all senders of a
// connection share. It has no lock: quic-go calls it for each of its packets.
type allocator struct {
	state atomic.Pointer[claim.ConnState]
	quic  atomic.Pointer[quicData] // nil: nobody wants to know
}

// NextPacketNumber implements [quic.Hooks]. When the loop closes, the state can move at the same time: a number of the
// old one, whose memory may be another connection's soon, is not used.
func (a *allocator) NextPacketNumber() int64 {
	for {
		state := a.state.Load()
		number, ok := state.TakeNumber()
		if ok && a.state.Load() == state {
			return int64(number)
		}
		runtime.Gosched()
	}
}

// PeekPacketNumber implements [quic.Hooks].
func (a *allocator) PeekPacketNumber() int64 {
	return int64(a.state.Load().NextPN.Load() & claim.NumberMask)
}

// PeekUniStream implements [quic.Hooks].
func (a *allocator) PeekUniStream() int64 { return int64(a.state.Load().NextUni.Load()) }

// TakeData implements [quic.Hooks].
func (a *allocator) TakeData(n int64, all bool) int64 {
	state := a.state.Load()
	n = state.TakeData(n, all, state.Reserve.Load())
	if q := a.quic.Load(); q != nil {
		q.take(n)
	}
	return n
}

// DataAvailable implements [quic.Hooks].
func (a *allocator) DataAvailable() int64 {
	state := a.state.Load()
	return state.DataAvailable() + int64(state.Reserve.Load())
}
