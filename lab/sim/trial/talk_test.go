package trial

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
	"sluice/moqt"
)

// TestTalk has conversations of two processes end early or be too slow, at each message, and two processes ask at once.
// Clients come before and after, and some process serves them.
func TestTalk(t *testing.T) {
	c := Client{Scheme: "moqt", Version: moqt.Draft18, Link: sim.Link{Delay: 20 * time.Millisecond}}
	upgrade := Mishap{At: 2500 * time.Millisecond, What: Upgrade, Relay: 1, Lasts: time.Second}
	another := upgrade
	another.At += upgrade.Lasts / 2
	tests := map[string][]Mishap{"two at once": {upgrade, another}}
	slow := upgrade
	slow.Talk.Late[3] = 4 * time.Second
	another.At = slow.At + slow.Lasts + slow.Talk.Late[3]/2
	tests["asked when another one has taken over"] = []Mishap{slow, another}
	rebind := Mishap{At: slow.At + slow.Lasts + 3*time.Second, What: Rebind, Viewer: 1}
	tests["a viewer that moves gets no SETUP"] = []Mishap{slow, rebind}
	for i := range 4 {
		late, cut := upgrade, upgrade
		late.Talk.Late[i], cut.Talk.Cut = 6*time.Second, i+1
		tests[fmt.Sprint("late message ", i+1)] = []Mishap{late}
		tests[fmt.Sprint("end at message ", i+1)] = []Mishap{cut}
	}
	for name, mishaps := range tests {
		t.Run(name, func(t *testing.T) {
			s := &Schedule{
				Upstream: [][]int{nil},
				Media:    Media{Groups: 16, Objects: 40, Pause: 25 * time.Millisecond, Publisher: c},
				Viewers:  []Viewer{{Number: 1, Client: c}, {Number: 2, Client: c, Joins: 14 * time.Second}},
				Mishaps:  mishaps,
			}
			require.NoError(t, s.Validate())
			Live(t, s, Options{Log: slog.New(slog.DiscardHandler)})
		})
	}
}
