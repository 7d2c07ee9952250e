package trial

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/sim"
	"sluice/internal/thorough"
	"sluice/moqt"
)

// corpus are seeds that have found a defect: docs/simulation.md says which.
var corpus = []uint64{90, 1241}

// TestSimulate lives through the schedules of some seeds, the corpus among them. SEED and SEEDS are the first seed and
// the number of seeds, without the corpus. The order of goroutines is not part of a seed here: see docs/simulation.md.
func TestSimulate(t *testing.T) {
	seeds := slices.Clone(corpus)
	if os.Getenv("SEED") != "" {
		seeds = nil
	} else {
		thorough.Only(t)
	}
	first := fromEnv(t, "SEED", 1)
	for i := range fromEnv(t, "SEEDS", 40) {
		seeds = append(seeds, first+i)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			simulate(t, seed)
		})
	}
}

// simulate runs the schedule of a seed. If it fails, it says how to run it again.
func simulate(t *testing.T, seed uint64) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("SIM_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	defer func() {
		if t.Failed() {
			t.Logf("again, the same each time: make simulate SEED=%d SEEDS=1 (docs/simulation.md)", seed)
		}
	}()
	Live(t, NewSchedule(seed), Options{Log: log})
}

func fromEnv(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err, name)
	return n
}

// TestNATThatRebindsOften has the NAT of a viewer take other ports within a round trip, until the client has no
// connection ID left that the relay has not used.
func TestNATThatRebindsOften(t *testing.T) {
	c := Client{Scheme: "moqt", Version: moqt.Draft18, Link: sim.Link{Delay: 90 * time.Millisecond}}
	s := &Schedule{
		Upstream: [][]int{nil},
		Media: Media{
			Groups: 5, Objects: 40, Pause: 25 * time.Millisecond,
			Publisher: Client{Scheme: "moqt", Version: moqt.Draft18},
		},
		Viewers: []Viewer{{Number: 1, Client: c}},
	}
	for i := range 3 {
		at := 2*time.Second + time.Duration(i)*300*time.Millisecond
		s.Mishaps = append(s.Mishaps, Mishap{At: at, What: Rebind, Viewer: 1})
	}
	Live(t, s, Options{Log: slog.New(slog.DiscardHandler)})
}
