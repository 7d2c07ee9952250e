package media

import (
	"iter"
	"maps"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// scenario is shared state and actors that work on it. The explorer runs the actors in every order of their accesses to shared state.
type scenario struct {
	sub    *SubscriberState
	stream *StreamState
	ledger ledger
	actors []func()
	check  func() // when all actors are through
}

func newScenario(records int) *scenario {
	sc := &scenario{sub: new(SubscriberState), stream: new(StreamState), ledger: make(ledger, records)}
	sc.reset()
	return sc
}

func (sc *scenario) reset() {
	*sc.sub, *sc.stream = SubscriberState{}, StreamState{}
	sc.ledger.clear()
	sc.sub.DataLimit.Store(1 << 20)
	sc.sub.Window.Store(1 << 20)
	sc.stream.Limit.Store(1 << 20)
	sc.stream.State.Store(streamOpen)
}

// memory is the content of the shared state.
func (sc *scenario) memory() string {
	b := append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(sc.sub)), unsafe.Sizeof(*sc.sub))...)
	b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(sc.stream)), unsafe.Sizeof(*sc.stream))...)
	return string(append(b, unsafe.Slice((*byte)(unsafe.Pointer(&sc.ledger[0])), uintptr(len(sc.ledger))*unsafe.Sizeof(sc.ledger[0]))...))
}

// actor runs as a coroutine that stops before each access to shared state.
type actor struct {
	resume  func() (any, bool)
	stop    func()
	at      any // the word that it accesses next
	done    bool
	history string // what it has seen: together with its code, its local state
}

// word returns the value of a word without being an access.
func word(w any) uint64 {
	switch w := w.(type) {
	case *Word:
		return w.v.Load()
	case *Word32:
		return uint64(w.v.Load())
	}
	return 0
}

func (a *actor) step() {
	if r, ok := a.at.(round); ok {
		a.history = string(r)
	} else if a.at != nil {
		v := word(a.at)
		a.history += string(unsafe.Slice((*byte)(unsafe.Pointer(&v)), 8))
	}
	at, ok := a.resume()
	a.at, a.done = at, !ok
}

// explore tries all orders. States that were reached before, in memory and in all actors, are not explored again.
func explore(t *testing.T, setup func() *scenario) (states, ends int) {
	t.Helper()
	defer func() { interleave = nil }()
	visited := make(map[string]bool)
	pending := [][]int{nil}
	for len(pending) > 0 {
		prefix := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		sc, actors := start(setup)
		for _, i := range prefix {
			actors[i].step()
		}
		key := sc.memory()
		running := 0
		for _, a := range actors {
			key += "|" + a.history
			if !a.done {
				running++
			}
		}
		if !visited[key] {
			visited[key] = true
			for i, a := range actors {
				if !a.done {
					pending = append(pending, append(slices.Clone(prefix), i))
				}
			}
			if running == 0 {
				ends++
				interleave = nil
				sc.check()
			}
		}
		for _, a := range actors {
			a.stop()
		}
	}
	return len(visited), ends
}

func start(setup func() *scenario) (*scenario, []*actor) {
	interleave = nil
	sc := setup()
	var actors []*actor
	var yields []func(any) bool
	current := 0
	for i, f := range sc.actors {
		yields = append(yields, nil)
		next, stop := iter.Pull(func(yield func(any) bool) {
			yields[i] = yield
			defer func() {
				if r := recover(); r != nil && r != (abandoned{}) {
					panic(r)
				}
			}()
			f()
		})
		actors = append(actors, &actor{resume: func() (any, bool) { current = i; return next() }, stop: stop})
	}
	interleave = func(w any) {
		if !yields[current](w) {
			panic(abandoned{})
		}
	}
	for _, a := range actors {
		a.step()
	}
	return sc, actors
}

// round, passed to interleave, says that the actor's local state is no more than this: what it saw before does not matter any more.
type round string

// abandoned unwinds an actor whose run is not continued.
type abandoned struct{}

// send sends up to n bytes of the stream by the claim protocol, as any sender does, and returns the packet's number and range.
func (sc *scenario) send(end, n int64, last bool) (number uint64, from, to int64, fin, ok bool) {
	from, closed := sc.stream.next()
	to = min(from+n, end)
	if closed || from >= end && !last {
		return
	}
	number, _, ok = sc.sub.begin(sc.ledger)
	if !ok {
		return
	}
	n = to - from
	credit := sc.sub.takeData(n, false, 0)
	fin = last && from+credit == end
	if credit == 0 && !fin || !sc.stream.claim(from, from+credit, fin) {
		sc.sub.returnData(credit)
		sc.sub.abort()
		return number, from, from, false, false
	}
	flags := uint8(kindStream)
	if fin {
		flags |= flagFIN
	}
	sc.sub.commit(sc.ledger, number, 1, from, newInfo(0, int(credit), 30, flags))
	return number, from, from + credit, fin, true
}

// claimed checks that the records cover [0, end) exactly once, and returns how many have FIN.
func (sc *scenario) claimed(t *testing.T, end int64) (fins int) {
	t.Helper()
	var got []span
	var inFlight int
	for n := range sc.sub.NextPN.Load() & numberMask {
		e, ok := sc.ledger.read(n)
		if !ok {
			continue
		}
		inFlight += e.size()
		if e.has(flagFIN) {
			fins++
		}
		if e.length() > 0 {
			got = append(got, span{e.offset, e.end(e.offset)})
		}
	}
	slices.SortFunc(got, func(a, b span) int { return int(a.from - b.from) })
	at := int64(0)
	for _, g := range got {
		require.Equal(t, at, g.from, "gap or overlap in %v", got)
		at = g.to
	}
	require.Equal(t, end, at)
	require.Equal(t, uint64(inFlight), sc.sub.InFlight.Load())
	require.Equal(t, uint64(end), sc.sub.DataSent.Load())
	require.Zero(t, sc.sub.Writers.Load())
	return fins
}

func TestInterleavedClaims(t *testing.T) {
	for name, limit := range map[string]uint64{"ample credit": 1000, "credit for a part": 7, "no credit": 0} {
		t.Run(name, func(t *testing.T) {
			states, ends := explore(t, func() *scenario {
				sc := newScenario(8)
				sc.sub.DataLimit.Store(limit)
				for range 2 {
					sc.actors = append(sc.actors, func() {
						sc.send(10, 5, false)
						interleave(round("second"))
						sc.send(10, 5, false)
					})
				}
				sc.check = func() {
					next, closed := sc.stream.next()
					require.False(t, closed)
					require.LessOrEqual(t, uint64(next), limit)
					if limit >= 10 {
						require.Equal(t, int64(10), next) // a sender that loses a race has another try
					}
					sc.claimed(t, next)
				}
				return sc
			})
			t.Logf("%d states, %d final", states, ends)
			require.Greater(t, states, 50)
		})
	}
}

func TestInterleavedFIN(t *testing.T) {
	states, _ := explore(t, func() *scenario {
		sc := newScenario(8)
		for range 2 {
			sc.actors = append(sc.actors, func() {
				sc.send(6, 3, true)
				interleave(round("second"))
				sc.send(6, 3, true)
			})
		}
		sc.check = func() {
			next, closed := sc.stream.next()
			require.True(t, closed)
			require.Equal(t, int64(6), next)
			require.Equal(t, 1, sc.claimed(t, 6), "FINs")
		}
		return sc
	})
	t.Logf("%d states", states)
}

func TestInterleavedReset(t *testing.T) {
	states, _ := explore(t, func() *scenario {
		sc := newScenario(8)
		var final int64
		sc.actors = []func(){
			func() { sc.send(6, 3, true) },
			func() { sc.send(6, 3, true) },
			func() { final = sc.stream.close() },
		}
		sc.check = func() {
			next, closed := sc.stream.next()
			require.True(t, closed)
			require.Equal(t, final, next, "something was claimed after the end")
			sc.claimed(t, final)
		}
		return sc
	})
	t.Logf("%d states", states)
}

// The reader of the ledger must not pass a packet number whose record is still to come.
func TestInterleavedReader(t *testing.T) {
	states, _ := explore(t, func() *scenario {
		sc := newScenario(8)
		found := map[uint64]bool{}
		var passed uint64
		look := func() {
			settled := sc.sub.settled()
			for ; passed < settled; passed++ {
				if _, ok := sc.ledger.read(passed); ok {
					found[passed] = true
				}
			}
		}
		sc.actors = []func(){
			func() { sc.send(9, 3, false) },
			func() { sc.send(9, 3, false) },
			look,
		}
		sc.check = func() {
			for n := range passed {
				_, recorded := sc.ledger.read(n)
				require.Equal(t, recorded, found[n], "packet %d", n)
			}
			passed = 0
			found = map[uint64]bool{}
			look()
			next, _ := sc.stream.next()
			sc.claimed(t, next)
			require.Equal(t, sc.sub.NextPN.Load()&numberMask, passed)
		}
		return sc
	})
	t.Logf("%d states", states)
}

// A record that is being overwritten is not read as a mixture, and marking it does not spoil the new one.
func TestInterleavedOverwriting(t *testing.T) {
	states, _ := explore(t, func() *scenario {
		sc := newScenario(4)
		sc.ledger.write(2, 11, 111, newInfo(7, 100, 30, flagLost))
		sc.actors = []func(){
			func() { sc.ledger.write(6, 22, 222, newInfo(7, 100, 30, 0)) },
			func() {
				if e, ok := sc.ledger.read(2); ok {
					require.Equal(t, entry{2, 11, 111, newInfo(7, 100, 30, flagLost)}, e)
					sc.ledger.mark(e, flagAcked)
				}
			},
		}
		sc.check = func() {
			e, ok := sc.ledger.read(6)
			require.True(t, ok)
			require.Equal(t, entry{6, 22, 222, newInfo(7, 100, 30, 0)}, e)
		}
		return sc
	})
	t.Logf("%d states", states)
}

func TestInterleavedStreamIDs(t *testing.T) {
	explore(t, func() *scenario {
		sc := newScenario(4)
		sc.sub.NextUni.Store(3)
		sc.sub.MaxUni.Store(3)
		got := map[int64]int{}
		take := func() {
			for range 2 {
				if id, ok := sc.sub.takeStream(); ok {
					got[id]++
				}
			}
		}
		sc.actors = []func(){take, take}
		sc.check = func() {
			require.Equal(t, map[int64]int{3: 1, 7: 1, 11: 1}, got)
		}
		return sc
	})
}

// quic-go takes all or nothing, and gives back what it took too much of.
func TestInterleavedCredit(t *testing.T) {
	explore(t, func() *scenario {
		sc := newScenario(4)
		sc.sub.DataLimit.Store(10)
		var media, second, control int64
		sc.actors = []func(){
			func() { media = sc.sub.takeData(8, false, 0) },
			func() {
				if control = sc.sub.takeData(6, true, 2); control > 0 {
					sc.sub.returnData(4)
				}
			},
			func() { second = sc.sub.takeData(3, false, 0) },
		}
		sc.check = func() {
			media += second
			require.Contains(t, []int64{0, 6}, control)
			used := media + max(control-4, 0)
			require.Equal(t, uint64(used), sc.sub.DataSent.Load())
			require.LessOrEqual(t, used, int64(12))
			require.LessOrEqual(t, media, int64(10))
		}
		return sc
	})
}

// A number that is taken before a key update goes under the older key, and one taken after it under the newer.
func TestInterleavedKeyUpdate(t *testing.T) {
	explore(t, func() *scenario {
		sc := newScenario(8)
		got := map[uint64]uint64{}
		take := func() {
			n, g, ok := sc.sub.begin(sc.ledger)
			require.True(t, ok)
			got[n] = g
			sc.sub.abort()
		}
		sc.sub.NextPN.Store(3 << generationShift) // the next generation wraps
		sc.actors = []func(){func() { take(); take() }, take, func() { sc.sub.NextPN.Add(1 << generationShift) }}
		sc.check = func() {
			require.Equal(t, []uint64{0, 1, 2}, slices.Sorted(maps.Keys(got)))
			for n := range uint64(2) {
				require.False(t, got[n] == 0 && got[n+1] == 3, "packet %d has a newer key than %d", n, n+1)
			}
		}
		return sc
	})
}
