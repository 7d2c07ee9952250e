package bench

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
)

var layered = Mock{Rate: 2e6, FrameRate: 25, Group: 50, Key: 5, Layers: true}

// arrivals are those of frames [0, end) of layered video, delay after their publication; never if it is negative.
func arrivals(end uint64, delay func(n uint64) time.Duration) (all []Arrival) {
	const begin = int64(1_700_000_000e9)
	for n := range end {
		f := layered.frame(n)
		published := begin + int64(f.due)
		if d := delay(n); d >= 0 {
			all = append(all, Arrival{f.at.Group, f.at.Object, published, published + int64(d), layered.size(n)})
		}
	}
	return all
}

func TestPlayEverything(t *testing.T) {
	p := play(layered, arrivals(150, func(uint64) time.Duration { return 30 * time.Millisecond }), 25, 150)
	require.Equal(t, 1., p.playable)
	require.Equal(t, 1., p.keys)
	require.Zero(t, p.stalls)
	require.InDelta(t, 2, p.goodput, .2, "2.5 groups have 2 of 3 key frames")
	require.Len(t, p.ages, 125)
	require.Equal(t, 30., p.ages[0])
	require.Len(t, p.goodputs.Value, 10)
	require.Equal(t, []float64{0, .5}, p.goodputs.Time[:2])
}

func TestPlayWithLoss(t *testing.T) {
	late := 2 * playout
	for name, c := range map[string]struct {
		delay    func(n uint64) time.Duration
		playable float64
		keys     float64
		stalls   int
		stalled  time.Duration
	}{
		"nothing of the top layer":         {func(n uint64) time.Duration { return never(layered.frame(n).layer == layerTop) }, .5, 1, 0, 0},
		"the top layer late":               {func(n uint64) time.Duration { return after(late, layered.frame(n).layer == layerTop) }, .5, 1, 0, 0},
		"key frames alone":                 {func(n uint64) time.Duration { return never(layered.frame(n).layer != layerKey) }, .02, 1, 2, 98 * 40 * time.Millisecond},
		"no key frame in the second group": {func(n uint64) time.Duration { return never(n == 50) }, .5, .5, 1, 50 * 40 * time.Millisecond},
		"a base frame late":                {func(n uint64) time.Duration { return after(late, n == 62) }, .62, 1, 1, 38 * 40 * time.Millisecond},
	} {
		p := play(layered, arrivals(100, c.delay), 0, 100)
		require.InDelta(t, c.playable, p.playable, 1e-9, name)
		require.Equal(t, c.keys, p.keys, name)
		require.Equal(t, c.stalls, p.stalls, name)
		require.Equal(t, c.stalled, p.stalled, name)
	}
	nothing := play(layered, nil, 0, 100)
	require.Zero(t, nothing.playable+nothing.keys+nothing.goodput)
	require.Equal(t, 4*time.Second, nothing.stalled)
	require.Equal(t, playback{}, play(layered, nil, 100, 100))
}

func never(yes bool) time.Duration { return after(-1, yes) }

func after(d time.Duration, yes bool) time.Duration {
	if yes {
		return d
	}
	return 0
}

func TestExpectedBetween(t *testing.T) {
	first, end := expectedBetween(layered, time.Second, 3*time.Second)
	require.EqualValues(t, [2]uint64{25, 75}, [2]uint64{first, end})
	first, end = expectedBetween(layered, 1010*time.Millisecond, 1050*time.Millisecond)
	require.EqualValues(t, [2]uint64{26, 27}, [2]uint64{first, end})
}

// Frames go to two subscribers: to the first 1 and 2 ms after they came in, to the second later.
func TestMeasureDelays(t *testing.T) {
	var packets []lab.Packet
	subscribers := []netip.AddrPort{netip.MustParseAddrPort("198.19.1.1:1"), netip.MustParseAddrPort("198.19.1.1:2")}
	pass := func(at time.Duration, point int, to netip.AddrPort, length int) {
		packets = append(packets, lab.Packet{Time: at, Point: point, Flow: lab.Flow{Target: to}, Length: length})
	}
	relay := netip.MustParseAddrPort("198.18.0.1:4443")
	for n := range 12 {
		at := time.Duration(n) * 40 * time.Millisecond
		pass(at, intoRelay, relay, 1200)
		pass(at+100*time.Microsecond, intoRelay, relay, 900)
		pass(at+500*time.Microsecond, outOfRelay, subscribers[0], 40) // an acknowledgement
		pass(at+time.Millisecond, outOfRelay, subscribers[0], 1200)
		pass(at+1500*time.Microsecond, outOfRelay, subscribers[1], 1200)
		pass(at+2100*time.Microsecond, outOfRelay, subscribers[0], 900)
		pass(at+3100*time.Microsecond+time.Duration(n%2)*time.Millisecond, outOfRelay, subscribers[1], 900)
	}
	d := measureDelays(packets, 2)
	require.Zero(t, d.unmatched)
	require.Len(t, d.first, 20, "all frames but the first and the last, twice")
	require.Equal(t, 1., d.first[0])
	require.Equal(t, 1.5, d.first[19])
	require.Equal(t, 2., d.last[0])
	require.Equal(t, 4., d.last[19])
	require.Len(t, d.fanoutFirst, 10)
	require.Equal(t, [2]float64{1, 1}, [2]float64{d.fanoutFirst[0], d.fanoutFirst[9]})
	require.Equal(t, [2]float64{3, 4}, [2]float64{d.fanoutLast[0], d.fanoutLast[9]})
	require.Len(t, d.jitter, 18)
	require.Zero(t, d.jitter[17])
	require.Equal(t, 48, countPackets(packets))
	require.Empty(t, measureDelays(packets, 3).fanoutLast, "a frame that did not reach everybody")
}
