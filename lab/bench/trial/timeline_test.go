package trial

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// timelineOf has three moments; program 7 is loaded at the second, and program 9 never runs.
func timelineOf() Timeline {
	type programs = map[ebpf.ProgramID]ProgramUse
	return Timeline{
		{Relay: 10 * ms, Publisher: 5 * ms, Subscribers: 1 * ms,
			Programs: programs{3: {"three", 2 * ms, 4, false}, 9: {Name: "nine"}}},
		{At: 100 * ms, Relay: 30 * ms, Publisher: 15 * ms, Subscribers: 11 * ms,
			Programs: programs{3: {"three", 6 * ms, 9, false}, 7: {"seven", ms, 1, false}, 9: {Name: "nine"}}},
		{At: 300 * ms, Relay: 40 * ms, Publisher: 16 * ms, Subscribers: 11 * ms,
			Programs: programs{3: {"three", 9 * ms, 10, false}, 7: {"seven", 5 * ms, 3, false}}},
	}
}

func TestIntervals(t *testing.T) {
	intervals := timelineOf().Intervals()
	require.Equal(t, []Interval{
		{At: 50 * ms, Length: 100 * ms, Relay: 20 * ms, Publisher: 10 * ms, Subscribers: 10 * ms, EBPF: 5 * ms},
		{At: 200 * ms, Length: 200 * ms, Relay: 10 * ms, Publisher: ms, EBPF: 7 * ms},
	}, intervals)
	require.Equal(t, 10., intervals[0].Percent(10*ms))
	run := timelineOf()
	for _, m := range run {
		m.Programs[3] = ProgramUse{Name: "three", Runtime: m.Programs[3].Runtime, Within: true}
	}
	require.Equal(t, ms, run.Intervals()[0].EBPF, "another program's time has that of the first")
	require.Empty(t, Timeline{}.Intervals())
	require.Empty(t, Timeline{{}, {}}.Intervals(), "no time has passed")
}

func TestPrograms(t *testing.T) {
	require.Equal(t, []ProgramUse{{Name: "three", Runtime: 7 * ms, Runs: 6}, {Name: "seven", Runtime: 5 * ms, Runs: 3}},
		timelineOf().Programs())
	left := timelineOf().only(map[ebpf.ProgramID]bool{7: true}).Programs()
	require.Len(t, left, 1)
	require.Equal(t, "seven", left[0].Name)
}
