package trial

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/lab/sim"
	"sluice/moqt"
)

// TestSimulate lives through the schedules of some seeds. SEED and SEEDS are the first seed and the number of seeds.
// The order of goroutines is not part of a seed here: see docs/simulation.md.
func TestSimulate(t *testing.T) {
	if os.Getenv("SEED") == "" {
		thorough.Only(t)
	}
	first := fromEnv(t, "SEED", 1)
	for i := range fromEnv(t, "SEEDS", 40) {
		t.Run(fmt.Sprint(first+i), func(t *testing.T) {
			t.Parallel()
			s := NewSchedule(first + i)
			simulate(t, s, fmt.Sprintf("make simulate SEED=%d SEEDS=1", s.Seed))
		})
	}
}

// TestCorpus lives through the schedules that have found a defect: docs/simulation.md says which.
func TestCorpus(t *testing.T) {
	thorough.Only(t)
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			s := new(Schedule)
			require.NoError(t, json.Unmarshal(b, s))
			require.NoError(t, s.Validate())
			simulate(t, s, "make simulate SIMULATE='--schedule lab/sim/trial/"+file+"'")
		})
	}
}

// simulate lives through a schedule. If it fails, it says how to do it again.
func simulate(t *testing.T, s *Schedule, again string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("SIM_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	defer func() {
		if t.Failed() {
			t.Logf("again, the same each time: %s (docs/simulation.md)", again)
		}
	}()
	Live(t, s, Options{Log: log})
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

// TestUpgrade replaces a relay twice. Publishers and viewers move, or stay with the first process.
func TestUpgrade(t *testing.T) {
	for name, publisherStays := range map[string]bool{"publisher moves": false, "publisher stays": true} {
		t.Run(name, func(t *testing.T) {
			c := Client{Scheme: "moqt", Version: moqt.Draft18, Link: sim.Link{Delay: 20 * time.Millisecond}}
			stays := c
			stays.Stays = true
			s := &Schedule{
				Upstream: [][]int{nil},
				Media:    Media{Groups: 10, Objects: 40, Subgroups: 2, Pause: 25 * time.Millisecond, Publisher: c},
				Viewers: []Viewer{
					{Number: 1, Client: c}, {Number: 2, Client: stays}, {Number: 3, Client: c, Joins: 3 * time.Second},
				},
				Mishaps: []Mishap{
					{At: 2500 * time.Millisecond, What: Upgrade, Relay: 1},
					{At: 6 * time.Second, What: Upgrade, Relay: 1},
				},
			}
			s.Media.Publisher.Stays = publisherStays
			require.NoError(t, s.Validate())
			Live(t, s, Options{Log: slog.New(slog.DiscardHandler)})
		})
	}
}

// TestDrain has a relay end, and send its viewer to another one.
func TestDrain(t *testing.T) {
	c := Client{Scheme: "https", Version: moqt.Draft18, Link: sim.Link{Delay: 20 * time.Millisecond}}
	s := &Schedule{
		Upstream: [][]int{nil, {1}},
		Media:    Media{Groups: 6, Objects: 40, Pause: 25 * time.Millisecond, Publisher: c},
		Viewers:  []Viewer{{Number: 1, Client: c}},
		Mishaps:  []Mishap{{At: 2500 * time.Millisecond, What: Drain, Relay: 2, Upstream: 1}},
	}
	require.NoError(t, s.Validate())
	Live(t, s, Options{Log: slog.New(slog.DiscardHandler)})
}
