package media

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A frame on an idle path leaves at once, a long burst at the controller's rate.
func TestPacing(t *testing.T) {
	f := &fixedController{window: 1 << 20, rate: 1_000_000}
	w := newWorld(t, withController(f))
	log := newTestLog(0, 100_000)
	w.stream(w.subscribe(), log)
	require.GreaterOrEqual(t, len(w.run())*testMTU, 100_000)

	log.Append(testBytes(100_000, 400_000))
	begin, n := w.clock.t, 0
	w.run()
	for w.s.observer.waits() {
		for _, p := range w.sleep(time.Second) {
			n += p.size
		}
	}
	require.NotZero(t, w.s.Stats().Reasons[BlockedPacing])
	require.InDelta(t, (400 * ms).Seconds(), w.clock.t.Sub(begin).Seconds(), 0.05)
}

func TestNoPacing(t *testing.T) {
	w := newWorld(t, withController(&fixedController{window: 1 << 20}))
	w.stream(w.subscribe(), newTestLog(0, 900_000))
	require.Greater(t, len(w.run()), 700)
}
