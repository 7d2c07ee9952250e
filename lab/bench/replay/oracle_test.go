package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/pathprofile"
	"sluice/lab/bench/result"
)

// TestOracle compares the oracle with all policies, which show no more pictures on any path.
func TestOracle(t *testing.T) {
	t.Parallel()
	m := Mock(10 * time.Second)
	for _, p := range pathprofile.All() {
		tr := m.On(p, 1)
		best := replayed(t, tr, Subject{Policy: Oracles()[0]}, 1)
		for _, policy := range Policies() {
			for _, c := range Controllers() {
				s := Subject{Policy: policy, Controller: c}
				require.LessOrEqual(t, replayed(t, tr, s, 1).Playable, best.Playable, "%s, %s", p.Name, s.Name())
			}
		}
	}
}

// TestOracleLimit sends nothing that is older than the limit on arrival, and no more than the path carries.
func TestOracleLimit(t *testing.T) {
	t.Parallel()
	m := Mock(20 * time.Second)
	for _, name := range []string{"wide", "constant", "sawtooth", "bulk"} {
		tr := m.On(profile(t, name), 1)
		for _, p := range Oracles() {
			o := replayed(t, tr, Subject{Policy: p}, 1)
			require.Equal(t, [2]float64{1, 1}, [2]float64{o.Keys, o.Audio}, name)
			require.LessOrEqual(t, result.Quantile(o.Ages, 1), p.Oracle.Seconds()*1e3+1, name)
			require.Positive(t, o.Ages[0])
			if name == "constant" && !p.Ordered {
				require.InDelta(t, .58*tr.Rate()/1e6, o.Goodput, .02*tr.Rate()/1e6)
			}
			require.Equal(t, name == "wide", o.Playable == 1)
		}
	}
}

// TestOrderedOracle sends important objects first: then others wait for them, and the oldest are older.
func TestOrderedOracle(t *testing.T) {
	t.Parallel()
	tr := Mock(10*time.Second).On(profile(t, "constant"), 1)
	best := replayed(t, tr, Subject{Policy: Oracles()[0]}, 1)
	young := replayed(t, tr, Subject{Policy: Oracles()[1]}, 1)
	ordered := replayed(t, tr, Subject{Policy: Oracles()[2]}, 1)
	require.Less(t, ordered.Playable, best.Playable)
	require.Greater(t, result.Quantile(ordered.Ages, .9), result.Quantile(young.Ages, .9))
	require.Less(t, result.Quantile(ordered.Ages, .5), result.Quantile(young.Ages, .5))
	require.Equal(t, [2]float64{1, 1}, [2]float64{ordered.Keys, ordered.Audio})
}
