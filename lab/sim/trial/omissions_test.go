package trial

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/media"
	"sluice/relay"
)

// TestOmissionIsFinal says which omissions excuse that an object is missing: a relay has to try for long enough.
func TestOmissionIsFinal(t *testing.T) {
	had := time.Now()
	for why, want := range map[media.Outcome]map[time.Duration]bool{
		media.Severed:  {time.Hour: false},
		media.Dropped:  {0: true},
		media.Canceled: {given - 1: false, given: true},
	} {
		for after, want := range want {
			x := omission{at: had.Add(after), Omission: relay.Omission{Why: why, Received: had}}
			require.Equal(t, want, x.isFinal(), "%v after %v", why, after)
		}
	}
}
