package trial

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
	"sluice/moqt"
)

// TestExcess has an address, or a token of two addresses, exceed the quotas of bytes and requests beside a viewer who
// does not.
func TestExcess(t *testing.T) {
	c := Client{Scheme: "moqt", Version: moqt.Draft22, Link: sim.Link{Delay: 20 * time.Millisecond}}
	for _, token := range []bool{false, true} {
		t.Run(fmt.Sprint("token: ", token), func(t *testing.T) {
			g := &generator{Schedule: &Schedule{
				Upstream: [][]int{nil},
				Media:    Media{Groups: 8, Objects: 40, Pause: 25 * time.Millisecond, Publisher: c},
				Viewers:  []Viewer{{Number: 1, Client: c}},
			}}
			rng := rand.New(rand.NewPCG(1, 1))
			g.restrict(rng)
			ration(g)
			exceed(g, rng)
			for i := range g.Mishaps {
				g.Mishaps[i].Token = token
			}
			require.NoError(t, g.Validate())
			Live(t, g.Schedule, Options{Log: slog.New(slog.DiscardHandler)})
		})
	}
}
