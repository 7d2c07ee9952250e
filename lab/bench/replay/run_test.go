package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/internal/packet"
	"sluice/lab/bench/result"
	"sluice/media"
)

// named returns the subject of a policy and a controller.
func named(t testing.TB, policy, controller string) (s Subject) {
	for _, p := range Policies() {
		if p.Name == policy {
			s.Policy = p
		}
	}
	for _, c := range Controllers() {
		if c.Name == controller {
			s.Controller = c
		}
	}
	require.NotNil(t, s.Policy.New, policy)
	require.NotNil(t, s.Controller.New, controller)
	return s
}

func replayed(t testing.TB, tr *Trace, s Subject, seed uint64) Outcome {
	o, err := Run(tr, s, seed)
	require.NoError(t, err)
	return o
}

func TestReplayIsRepeatable(t *testing.T) {
	t.Parallel()
	tr := Mock(20*time.Second).On(profile(t, "outage"), 2)
	for _, c := range Controllers() {
		s := named(t, "none", c.Name)
		first := replayed(t, tr, s, 3)
		for range 4 {
			require.Equal(t, first, replayed(t, tr, s, 3), c.Name)
		}
	}
	s := named(t, "priority", "cubic")
	lossy := Mock(10*time.Second).On(profile(t, "loss"), 2)
	require.NotEqual(t, replayed(t, lossy, s, 3).Ages, replayed(t, lossy, s, 4).Ages, "the seed counts")
}

// TestWidePath loses nothing, whoever decides: each object arrives, and that soon.
func TestWidePath(t *testing.T) {
	t.Parallel()
	tr := Mock(10*time.Second).On(profile(t, "wide"), 1)
	for _, p := range Policies() {
		for _, c := range Controllers() {
			s := Subject{Policy: p, Controller: c}
			o := replayed(t, tr, s, 1)
			require.Equal(t, [3]float64{1, 1, 1}, [3]float64{o.Playable, o.Keys, o.Audio}, s.Name())
			require.Zero(t, o.Stalls, s.Name())
			require.Zero(t, o.Lost, s.Name())
			require.Len(t, o.Ages, 250, s.Name())
			// Half of the RTT, and 1,500 bytes at 8 Mbit/s.
			require.InDelta(t, 21.5, o.Ages[0], 10, s.Name())
		}
	}
}

// urgent is an operator's rule that admits levels of Publisher Priorities up to a limit.
type urgent uint32

func (u urgent) Admit(_ *claim.ConnState, a claim.Admission) claim.Verdict {
	if a.Level&0xff > uint32(u) {
		return claim.Declined
	}
	return claim.Admitted
}

// TestOwnRule replays with an operator's rule: of the mock's layers, audio and key frames come.
func TestOwnRule(t *testing.T) {
	t.Parallel()
	s := named(t, "none", "cubic")
	s.Policy.Admit = urgent(64)
	o := replayed(t, Mock(10*time.Second).On(profile(t, "wide"), 1), s, 1)
	require.Equal(t, [2]float64{1, 1}, [2]float64{o.Keys, o.Audio})
	require.Less(t, o.Playable, 0.1)
	require.Positive(t, o.Playable)
}

// TestBottleneck compares a policy with none: it keeps important objects, and objects are young when they arrive.
func TestBottleneck(t *testing.T) {
	t.Parallel()
	tr := Mock(20*time.Second).On(profile(t, "constant"), 1)
	none, drop := replayed(t, tr, named(t, "none", "cubic"), 1), replayed(t, tr, named(t, "priority", "cubic"), 1)
	require.Equal(t, [2]float64{1, 1}, [2]float64{drop.Keys, drop.Audio})
	require.Less(t, result.Quantile(drop.Ages, .9), result.Quantile(none.Ages, .9))
	require.Less(t, drop.Packets, none.Packets)
	for _, o := range []Outcome{none, drop} {
		require.Less(t, o.Playable, .8)
		require.Less(t, o.Goodput, .6*tr.Rate()/1e6)
	}
}

// TestBulkFlow takes a part of the path, and no more than a part.
func TestBulkFlow(t *testing.T) {
	t.Parallel()
	p := profile(t, "bulk")
	s := named(t, "none", "cubic")
	alone := p
	alone.Bulk = false
	m := Mock(20 * time.Second)
	with, without := replayed(t, m.On(p, 1), s, 1), replayed(t, m.On(alone, 1), s, 1)
	require.Equal(t, 1., without.Playable)
	require.Less(t, with.Goodput, .8*without.Goodput)
	require.Greater(t, with.Goodput, .3*without.Goodput)
}

// TestTooFarBehind ends the subscription, as the relay does, when nothing has passed for long.
func TestTooFarBehind(t *testing.T) {
	t.Parallel()
	tr := Mock(2*media.DefaultMaxBehind).On(profile(t, "constant"), 1)
	tr.Path = []Change{{Rate: 1e7, Queue: 1e5}, {At: time.Second, Queue: 1e5},
		{At: media.DefaultMaxBehind + 5*time.Second, Rate: 1e7, Queue: 1e5}}
	o := replayed(t, tr, named(t, "none", "cubic"), 1)
	require.Less(t, len(o.Ages), 50, "nothing arrives after the end")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	tr := Mock(4 * time.Second)
	p := profile(t, "constant")
	subjects := []Subject{named(t, "none", "cubic"), named(t, "priority", "cubic")}
	cases := []Case{{"constant", p.Title, []*Trace{tr.On(p, 1), tr.On(p, 2)}}}
	r, err := Compare(t.Context(), cases, subjects)
	require.NoError(t, err)
	require.NoError(t, r.Validate())
	require.Len(t, r.Scenarios, 1)
	s := r.Scenarios[0]
	require.Equal(t, result.KindCongestion, s.Kind)
	require.Len(t, s.Runs, 4)
	for _, run := range s.Runs {
		for name := range run.Metrics {
			require.Contains(t, r.Metrics, name)
		}
		for name := range run.Series {
			require.Contains(t, r.Metrics, name)
		}
	}
	require.Equal(t, 2, s.Summary("none/cubic").Runs)
	require.Contains(t, s.Summary("priority/cubic").Metrics, "age.p90")
}

// A packet that was changed on its way is no packet.
func TestOpener(t *testing.T) {
	t.Parallel()
	if packet.Unprotected {
		t.Skip("this build does not protect packets")
	}
	s, err := newSimulation(Mock(time.Second).On(profile(t, "wide"), 1), named(t, "none", "cubic"), 1)
	require.NoError(t, err)
	s.receiver.receive(make([]byte, 100))
	require.ErrorContains(t, s.run(), "a packet cannot be opened")
}
