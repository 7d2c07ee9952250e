package chaos

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/moqt"
)

// firstAct is how long the short act before the long one lasts. After it, the relays have what they will always have.
const firstAct = 15 * time.Second

func TestChaos(t *testing.T) {
	if os.Getenv("CHAOS") == "" {
		t.Skip("CHAOS is not set; make chaos sets it")
	}
	duration, err := time.ParseDuration(os.Getenv("CHAOS"))
	require.NoError(t, err, "CHAOS must be a duration such as 2m")
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	require.NoError(t, err, "SEED must be a number")
	fmt.Printf("chaos for %v with seed %d\n", duration, seed) // also if the run does not end
	kernel, err := openKernelLog()
	require.NoError(t, err)
	defer kernel.close()

	l := labtest.New(t, lab.Topology{Subscribers: len(honestHosts) - 1 + len(hostileHosts) + rtspHosts, Seed: seed})
	r := newRun(t, l)
	var starts []held
	for i, act := range []time.Duration{firstAct, duration} {
		schedule := newSchedule(seed+uint64(i), act)
		err := r.act(schedule, act)
		if dir := os.Getenv("PLOTS"); dir != "" {
			require.NoError(t, r.plots.draw(dir)) // of the long act in the end
		}
		require.NoError(t, err, "seed %d", seed)
		for k, relay := range r.relays {
			start := empty
			if i > 0 {
				start = starts[k]
			}
			now, err := relay.settle(start)
			require.NoError(t, err, "seed %d", seed)
			t.Logf("act %d, relay %s holds %v", i, relayNames[k], now)
			starts = append(starts, now)
		}
		t.Logf("act %d: %d events, %d objects compared; for honest peers, %v", i, len(schedule),
			r.received.Swap(0), r.forgetHeard())
	}
	counts, err := r.relays[0].counts()
	require.NoError(t, err)
	t.Log(counts)
	r.end()
	require.NoError(t, kernel.check(), "seed %d", seed)
}

// end ends the relays, and checks that nothing of them is left.
func (r *run) end() {
	for _, p := range r.points {
		require.NoError(r.t, p.detach())
	}
	for _, relay := range r.relays {
		require.NoError(r.t, relay.stop())
	}
}

// victim is the track that hostile peers want to harm.
func victim(relay int) moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: namespace(relay, "quic"), Name: "1.m4s"}
}
