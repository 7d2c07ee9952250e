package trial

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
	"sluice/moqt"
)

// TestStorm has two relays without a publisher ask each other for a track.
func TestStorm(t *testing.T) {
	c := Client{Scheme: "moqt", Version: moqt.Draft18, Link: sim.Link{Delay: 20 * time.Millisecond}}
	s := &Schedule{
		Upstream: [][]int{nil, {1}},
		Media:    Media{Groups: 6, Objects: 40, Pause: 25 * time.Millisecond, Publisher: c},
		Viewers:  []Viewer{{Number: 1, Client: c}},
		Mishaps:  []Mishap{{What: Storm, Relay: 1, At: time.Second}, {What: Storm, Relay: 2, At: 2 * time.Second}},
	}
	require.NoError(t, s.Validate())
	Live(t, s, Options{Log: slog.New(slog.DiscardHandler)})
}
