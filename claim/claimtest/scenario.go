package claimtest

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"sluice/claim"
)

// Scenario is the shared state of a connection with one stream, and actors that work on it.
type Scenario struct {
	Conn   *claim.ConnState
	Stream *claim.StreamState
	Ledger claim.Ledger
	Base   int64        // stream offset minus offset in Stream
	Shared []claim.Word // other words that the actors share
	Actors []func()
	Check  func()      // is called at the end of all actors
	Enough func() bool // reports whether no more has to be explored; nil: never
}

// NewScenario returns a scenario with a ledger of that many records, an open stream, and more credit than is needed.
func NewScenario(records int) *Scenario {
	sc := &Scenario{Conn: new(claim.ConnState), Stream: new(claim.StreamState), Ledger: make(claim.Ledger, records)}
	sc.reset()
	return sc
}

func (sc *Scenario) reset() {
	*sc.Conn, *sc.Stream = claim.ConnState{}, claim.StreamState{}
	sc.Ledger.Clear()
	sc.Conn.DataLimit.Store(1 << 20)
	sc.Conn.Window.Store(1 << 20)
	sc.Stream.Limit.Store(1 << 20)
	sc.Stream.Phase.Store(claim.StreamOpen)
}

// memory is the contents of the shared state.
func (sc *Scenario) memory() (m string) {
	for _, part := range sc.parts() {
		m += string(part)
	}
	return m
}

// parts is the shared state.
func (sc *Scenario) parts() [4][]byte {
	return [...][]byte{
		view(sc.Conn, 1), view(sc.Stream, 1),
		view(unsafe.SliceData(sc.Ledger), len(sc.Ledger)), view(unsafe.SliceData(sc.Shared), len(sc.Shared)),
	}
}

func bytesOf[T any](v *T) string { return string(view(v, 1)) }

// view is the bytes of n values.
func view[T any](v *T, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), uintptr(n)*unsafe.Sizeof(*v))
}

// Send sends up to n bytes of the stream, which ends at end, by the claim protocol, as any sender does. With last it
// sends FIN, too. It reports whether it has sent something. If not, because another sender was first, it has taken
// nothing but perhaps a packet number.
func (sc *Scenario) Send(end, n int64, last bool) bool {
	from, closed := sc.Stream.Cursor()
	to := min(from+n, end)
	if closed || from >= end && !last {
		return false
	}
	return sc.send(from, to, last && to == end)
}

// SendFrame sends the bytes from and up to these offsets, if none of them was sent before, as a forwarder does with a
// publisher's frame.
func (sc *Scenario) SendFrame(from, to int64, last bool) bool {
	if next, closed := sc.Stream.Cursor(); closed || next != from {
		return false
	}
	return sc.send(from, to, last)
}

// send sends the bytes that it can claim from one offset on, at most up to another, and FIN behind them with last.
func (sc *Scenario) send(from, to int64, last bool) bool {
	number, _, ok := sc.Conn.Begin(sc.Ledger)
	if !ok {
		return false
	}
	credit := sc.Conn.TakeData(to-from, false, 0)
	fin := last && from+credit == to
	if credit == 0 && !fin || !sc.Stream.Claim(from, from+credit, fin) {
		sc.Conn.ReturnData(credit)
		sc.Conn.Abort()
		return false
	}
	flags := uint8(claim.KindStream)
	if fin {
		flags |= claim.FlagFIN
	}
	sc.Conn.Commit(sc.Ledger, number, 1, sc.Base+from, claim.NewInfo(0, int(credit), 30, flags))
	return true
}

// Claimed expects the records to cover the stream offsets [0, end) exactly once, and the counters to agree. It returns
// how many records have FIN.
func (sc *Scenario) Claimed(t *testing.T, end int64) (fins int) {
	t.Helper()
	type span struct{ from, to int64 }
	var got []span
	var inFlight int
	for n := range sc.Conn.NextPN.Load() & claim.NumberMask {
		e, ok := sc.Ledger.Read(n)
		if !ok {
			continue
		}
		inFlight += e.Size()
		if e.Has(claim.FlagFIN) {
			fins++
		}
		if e.Length() > 0 {
			got = append(got, span{e.Offset, e.End(e.Offset)})
		}
	}
	slices.SortFunc(got, func(a, b span) int { return int(a.from - b.from) })
	at := int64(0)
	for _, g := range got {
		require.Equal(t, at, g.from, "gap or overlap in %v", got)
		at = g.to
	}
	require.Equal(t, end, at)
	require.Equal(t, uint64(inFlight), sc.Conn.InFlight.Load())
	require.Equal(t, uint64(end), sc.Conn.DataSent.Load())
	require.Zero(t, sc.Conn.Writers.Load())
	return fins
}

// placeOf returns where a word lies in the scenario's memory.
func (sc *Scenario) placeOf(word any) (at uintptr, ok bool) {
	var p unsafe.Pointer
	switch w := word.(type) {
	case *claim.Word:
		p = unsafe.Pointer(w)
	case *claim.Word32:
		p = unsafe.Pointer(w)
	}
	for i, part := range sc.parts() {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
		if at := uintptr(p) - from; uintptr(p) >= from && at < uintptr(len(part)) {
			return uintptr(i)<<32 | at, true
		}
	}
	return 0, false
}
