package measure

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const us = time.Microsecond

// sent returns a burst of packets of 1,000 bytes that pass a point to a target, step apart.
func sent(point, target int, at time.Duration, count int, step time.Duration) (packets []Packet) {
	for range count {
		packets = append(packets, packet(point, target, at, 1000))
		at += step
	}
	return packets
}

func packet(point, target int, at time.Duration, length int) Packet {
	addr := netip.MustParseAddrPort(fmt.Sprintf("198.19.1.%d:4443", target))
	return Packet{Time: at, Point: point, Length: length, Flow: Flow{Target: addr}}
}

func TestMatchBursts(t *testing.T) {
	const frame = 40 * time.Millisecond
	// in returns the frames that go in: one more before and after those that are measured.
	in := func(frames int) (packets []Packet) {
		for i := range frames + 2 {
			packets = append(packets, sent(0, 0, time.Duration(i)*frame, 5, 10*us)...)
		}
		return packets
	}
	for _, c := range []struct {
		name        string
		out         []Packet // of frame 1, which starts at 40 ms
		first, last time.Duration
		matched     bool
	}{
		{"as it came", sent(1, 1, frame+300*us, 5, 10*us), 300 * us, 300 * us, true},
		{"spread", sent(1, 1, frame+300*us, 5, 20*us), 300 * us, 340 * us, true},
		{"cut anew", sent(1, 1, frame+100*us, 4, 50*us), 100 * us, 210 * us, false}, // 4000 bytes of 5000
		{"paused in the middle", append(sent(1, 1, frame+100*us, 2, 10*us),
			sent(1, 1, frame+20*time.Millisecond, 3, 10*us)...),
			100 * us, 20*time.Millisecond - 20*us, true},
		{"sent twice", append(sent(1, 1, frame+100*us, 5, 10*us), sent(1, 1, frame+200*us, 5, 10*us)...), 0, 0, false},
		{"lost", nil, 0, 0, false},
		{"an acknowledgement before and after", append(append(
			[]Packet{packet(1, 1, frame+10*us, 40)}, sent(1, 1, frame+300*us, 5, 10*us)...),
			packet(1, 1, frame+900*us, 40)),
			300 * us, 300 * us, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Something went out before, so that the target is known even if the frame is lost.
			packets := append(in(1), sent(1, 1, 0, 5, 10*us)...)
			sorted := SortByTime(append(packets, c.out...))
			got := MatchBursts(sorted)
			if !c.matched {
				require.Empty(t, got.Matched)
				require.Equal(t, 1, got.Unmatched)
				return
			}
			require.Zero(t, got.Unmatched)
			require.Equal(t, Delays{c.first}, got.First())
			require.Equal(t, Delays{c.last}, got.Last())
			require.Equal(t, "198.19.1.1:4443", got.Matched[0].Target.String())
		})
	}
}

func TestMatchBurstsOfSeveralTargets(t *testing.T) {
	var packets []Packet
	for i := range 12 {
		at := time.Duration(i) * 20 * time.Millisecond
		packets = append(packets, sent(0, 0, at, 3, 10*us)...)
		for target := 1; target <= 3; target++ {
			packets = append(packets, sent(1, target, at+time.Duration(target)*100*us, 3, 10*us)...)
		}
	}
	got := MatchBursts(SortByTime(packets))
	require.Zero(t, got.Unmatched)
	require.Len(t, got.Matched, 30)
	require.Equal(t, 100*us, got.First().Quantile(0))
	require.Equal(t, 200*us, got.First().Quantile(.5))
	require.Equal(t, 300*us, got.Last().Quantile(1))
}

func TestMatchBurstsAcrossAPause(t *testing.T) {
	var packets []Packet
	for _, at := range []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second} {
		packets = append(packets, sent(0, 0, at, 3, 10*us)...)
	}
	packets = append(packets, sent(1, 1, time.Second+300*time.Millisecond, 3, 10*us)...)
	packets = append(packets, sent(1, 1, 2*time.Second+150*time.Millisecond, 3, 10*us)...)
	got := MatchBursts(SortByTime(packets))
	require.Equal(t, Delays{150 * time.Millisecond}, got.First())
	require.Equal(t, 1, got.Unmatched, "300 ms is not believed")
}

func TestMatchBurstsOfNothing(t *testing.T) {
	require.Empty(t, MatchBursts(nil))
	require.Empty(t, MatchBursts(sent(0, 0, 0, 5, us)))
}

func TestQuantiles(t *testing.T) {
	d := Delays{40, 10, 30, 20}
	for q, want := range map[float64]time.Duration{0: 10, .25: 10, .26: 20, .5: 20, .75: 30, .99: 40, 1: 40} {
		require.Equal(t, want, d.Quantile(q), q)
	}
	require.Equal(t, Delays{40, 10, 30, 20}, d, "order is the caller's")
	require.Zero(t, Delays(nil).Quantile(.5))
}
