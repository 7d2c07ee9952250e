package claimtest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
)

// randomScenario has actors that load and change a few words. Their next step depends on the values that they have
// seen. Check adds these values and the words to ends.
func randomScenario(seed uint64, ends map[string]bool) *Scenario {
	const words, accesses = 3, 4
	sc := NewScenario(1)
	sc.Shared = make([]claim.Word, words)
	seen := make([][]uint64, 3)
	for i := range seen {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		var steps [accesses]int
		for j := range steps {
			steps[j] = random.IntN(5 * words)
		}
		sc.Actors = append(sc.Actors, func() {
			for _, step := range steps {
				w, last := &sc.Shared[step%words], uint64(0)
				if n := len(seen[i]); n > 0 {
					last = seen[i][n-1]
				}
				switch step / words {
				case 0:
					w.Store(last + uint64(i))
				case 1:
					seen[i] = append(seen[i], w.Add(1))
				case 2:
					if !w.CompareAndSwap(last, last+2) {
						return
					}
				default:
					seen[i] = append(seen[i], w.Load())
				}
			}
		})
	}
	sc.Check = func() { ends[fmt.Sprint(seen, []byte(sc.memory()))] = true }
	return sc
}

// TestReduction compares the ends of random scenarios with the ends of all orders.
func TestReduction(t *testing.T) {
	var reduced, all Explored
	for seed := range uint64(30) {
		few, every := map[string]bool{}, map[string]bool{}
		r := explore(func() *Scenario { return randomScenario(seed, few) }, false)
		a := explore(func() *Scenario { return randomScenario(seed, every) }, true)
		require.Equal(t, every, few, "seed %d", seed)
		reduced.Runs, all.Runs = reduced.Runs+r.Runs, all.Runs+a.Runs
	}
	t.Logf("%d runs in place of %d", reduced.Runs, all.Runs)
	require.Less(t, reduced.Runs, all.Runs)
}
