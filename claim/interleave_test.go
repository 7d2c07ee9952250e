package claim_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/claim/claimtest"
)

// A sender that loses a race has another try.
func TestInterleavedClaims(t *testing.T) {
	for name, c := range map[string]struct {
		credit uint64
		fin    bool
	}{
		"ample credit": {1000, false}, "credit for a part": {7, false}, "no credit": {0, false}, "FIN": {1000, true},
	} {
		t.Run(name, func(t *testing.T) {
			explored := claimtest.Explore(t, func() *claimtest.Scenario {
				sc := claimtest.NewScenario(8)
				sc.Conn.DataLimit.Store(c.credit)
				for range 2 {
					sc.Actors = append(sc.Actors, func() {
						sc.Send(10, 5, c.fin)
						claimtest.Forget("second")
						sc.Send(10, 5, c.fin)
					})
				}
				sc.Check = func() {
					next, closed := sc.Stream.Cursor()
					require.Equal(t, c.fin, closed)
					require.LessOrEqual(t, uint64(next), c.credit)
					if c.credit >= 10 {
						require.Equal(t, int64(10), next)
					}
					require.Equal(t, c.fin, sc.Claimed(t, next) == 1, "FIN")
				}
				return sc
			})
			t.Logf("%+v", explored)
			require.Greater(t, explored.States, 50)
		})
	}
}

func TestInterleavedReset(t *testing.T) {
	explored := claimtest.Explore(t, func() *claimtest.Scenario {
		sc := claimtest.NewScenario(8)
		var final int64
		sc.Actors = []func(){
			func() { sc.Send(6, 3, true) },
			func() { sc.Send(6, 3, true) },
			func() { final = sc.Stream.Close() },
		}
		sc.Check = func() {
			next, closed := sc.Stream.Cursor()
			require.True(t, closed)
			require.Equal(t, final, next, "something was claimed after the end")
			sc.Claimed(t, final)
		}
		return sc
	})
	t.Logf("%+v", explored)
}

// A forwarder goes on to claim while the cursor moves away from it. No byte is claimed in both places.
func TestInterleavedStreamMove(t *testing.T) {
	explored := claimtest.Explore(t, func() *claimtest.Scenario {
		sc := claimtest.NewScenario(8)
		own := claimtest.Scenario{Conn: sc.Conn, Stream: new(claim.StreamState), Ledger: sc.Ledger}
		var moved int64
		sc.Actors = []func(){
			func() {
				sc.SendFrame(0, 3, false)
				sc.SendFrame(3, 6, false)
			},
			func() {
				moved, _ = sc.Stream.MoveTo(own.Stream, 0)
				for from := moved; from < 9; from += 3 {
					require.True(t, own.Send(9, 3, true))
				}
			},
		}
		sc.Check = func() {
			next, closed := sc.Stream.Cursor()
			require.True(t, closed)
			require.Equal(t, moved, next, "something was claimed after the cursor had moved")
			require.Equal(t, 1, sc.Claimed(t, 9), "FINs")
		}
		return sc
	})
	t.Logf("%+v", explored)
}

// The cursor moves into the forwarder's memory, to the offsets of another publisher's stream, while the forwarder sees
// frames of that. No byte is claimed twice or left out.
func TestInterleavedStreamReturns(t *testing.T) {
	const by = -4
	explored := claimtest.Explore(t, func() *claimtest.Scenario {
		sc := claimtest.NewScenario(8)
		sc.Base = by
		sc.Stream.Phase.Store(claim.StreamOpening)
		sc.Stream.Next.Store(-by) // of an earlier stream
		own := claimtest.Scenario{Conn: sc.Conn, Stream: new(claim.StreamState), Ledger: sc.Ledger}
		own.Stream.Phase.Store(claim.StreamOpen)
		sc.Actors = []func(){
			func() {
				for from := int64(0); from < 6; from += 3 {
					if sc.Stream.Phase.Load() == claim.StreamOpen {
						sc.SendFrame(from-by, from+3-by, false)
					}
				}
			},
			func() {
				require.True(t, own.Send(6, 3, false))
				own.Stream.MoveTo(sc.Stream, by)
				for {
					if _, closed := sc.Stream.Cursor(); closed {
						break
					}
					sc.Send(6-by, 3, true)
				}
			},
		}
		sc.Check = func() {
			next, _ := sc.Stream.Cursor()
			require.EqualValues(t, 6-by, next)
			require.EqualValues(t, by, sc.Stream.Shift())
			require.Equal(t, 1, sc.Claimed(t, 6), "FINs")
		}
		return sc
	})
	t.Logf("%+v", explored)
}

// The reader of the ledger must not pass a packet number whose record is still to come.
func TestInterleavedReader(t *testing.T) {
	explored := claimtest.Explore(t, func() *claimtest.Scenario {
		sc := claimtest.NewScenario(8)
		found := map[uint64]bool{}
		var passed uint64
		look := func() {
			settled := sc.Conn.Settled()
			for ; passed < settled; passed++ {
				if _, ok := sc.Ledger.Read(passed); ok {
					found[passed] = true
				}
			}
		}
		sc.Actors = []func(){
			func() { sc.Send(9, 3, false) },
			func() { sc.Send(9, 3, false) },
			look,
		}
		sc.Check = func() {
			for n := range passed {
				_, recorded := sc.Ledger.Read(n)
				require.Equal(t, recorded, found[n], "packet %d", n)
			}
			passed = 0
			found = map[uint64]bool{}
			look()
			next, _ := sc.Stream.Cursor()
			sc.Claimed(t, next)
			require.Equal(t, sc.Conn.NextPN.Load()&claim.NumberMask, passed)
		}
		return sc
	})
	t.Logf("%+v", explored)
}

// A record that is being overwritten is not read as a mixture, and marking it does not spoil the new one.
func TestInterleavedOverwriting(t *testing.T) {
	explored := claimtest.Explore(t, func() *claimtest.Scenario {
		sc := claimtest.NewScenario(4)
		sc.Ledger.Write(2, 11, 111, claim.NewInfo(7, 100, 30, claim.FlagLost))
		sc.Actors = []func(){
			func() { sc.Ledger.Write(6, 22, 222, claim.NewInfo(7, 100, 30, 0)) },
			func() {
				if e, ok := sc.Ledger.Read(2); ok {
					require.Equal(t, claim.Entry{2, 11, 111, claim.NewInfo(7, 100, 30, claim.FlagLost)}, e)
					sc.Ledger.Mark(e, claim.FlagAcked)
				}
			},
		}
		sc.Check = func() {
			e, ok := sc.Ledger.Read(6)
			require.True(t, ok)
			require.Equal(t, claim.Entry{6, 22, 222, claim.NewInfo(7, 100, 30, 0)}, e)
		}
		return sc
	})
	t.Logf("%+v", explored)
}

func TestInterleavedStreamIDs(t *testing.T) {
	claimtest.Explore(t, func() *claimtest.Scenario {
		sc := claimtest.NewScenario(4)
		sc.Conn.NextUni.Store(3)
		sc.Conn.MaxUni.Store(3)
		got := map[int64]int{}
		take := func() {
			for range 2 {
				if id, ok := sc.Conn.TakeStream(); ok {
					got[id]++
				}
			}
		}
		sc.Actors = []func(){take, take}
		sc.Check = func() {
			require.Equal(t, map[int64]int{3: 1, 7: 1, 11: 1}, got)
		}
		return sc
	})
}

// quic-go takes all or nothing, and gives back credit that it took too much of.
func TestInterleavedCredit(t *testing.T) {
	claimtest.Explore(t, func() *claimtest.Scenario {
		sc := claimtest.NewScenario(4)
		sc.Conn.DataLimit.Store(10)
		var media, second, control int64
		sc.Actors = []func(){
			func() { media = sc.Conn.TakeData(8, false, 0) },
			func() {
				if control = sc.Conn.TakeData(6, true, 2); control > 0 {
					sc.Conn.ReturnData(4)
				}
			},
			func() { second = sc.Conn.TakeData(3, false, 0) },
		}
		sc.Check = func() {
			media += second
			require.Contains(t, []int64{0, 6}, control)
			used := media + max(control-4, 0)
			require.Equal(t, uint64(used), sc.Conn.DataSent.Load())
			require.LessOrEqual(t, used, int64(12))
			require.LessOrEqual(t, media, int64(10))
		}
		return sc
	})
}

// A number that is taken before a key update goes under the older key, and one taken after it under the newer.
func TestInterleavedKeyUpdate(t *testing.T) {
	claimtest.Explore(t, func() *claimtest.Scenario {
		sc := claimtest.NewScenario(8)
		got := map[uint64]uint64{}
		take := func() {
			n, g, ok := sc.Conn.Begin(sc.Ledger)
			require.True(t, ok)
			got[n] = g
			sc.Conn.Abort()
		}
		sc.Conn.NextPN.Store(3 << claim.GenerationShift) // the next generation wraps
		sc.Actors = []func(){func() { take(); take() }, take, func() { sc.Conn.NextPN.Add(1 << claim.GenerationShift) }}
		sc.Check = func() {
			require.Equal(t, []uint64{0, 1, 2}, slices.Sorted(maps.Keys(got)))
			for n := range uint64(2) {
				require.False(t, got[n] == 0 && got[n+1] == 3, "packet %d has a newer key than %d", n, n+1)
			}
		}
		return sc
	})
}

// A forwarder goes on to take packet numbers while the state moves away from it. The media sender goes on with numbers
// that the forwarder does not use.
func TestInterleavedMove(t *testing.T) {
	explored := claimtest.Explore(t, func() *claimtest.Scenario {
		sc := claimtest.NewScenario(16)
		sc.Conn.NextPN.Store(1 << claim.GenerationShift)
		to := new(claim.ConnState)
		times := map[uint64]int{} // that each number was used
		take := func(from *claim.ConnState) (ok bool) {
			n, generation, ok := from.Begin(sc.Ledger)
			if ok {
				require.EqualValues(t, 1, generation)
				times[n]++
				from.Abort()
			}
			return ok
		}
		forward := func() { take(sc.Conn) }
		sc.Actors = []func(){
			func() { forward(); forward() },
			forward,
			func() {
				sc.Conn.MoveTo(to)
				require.True(t, take(to))
				n, ok := to.TakeNumber()
				require.True(t, ok)
				times[n]++
			},
		}
		sc.Check = func() {
			for n, used := range times {
				require.Equal(t, 1, used, "packet %d", n)
			}
			require.Zero(t, sc.Conn.Writers.Load())
			require.False(t, take(sc.Conn), "a number of the state that has moved was used")
		}
		return sc
	})
	t.Logf("%+v", explored)
}
