package measure

import (
	"math"
	"slices"
	"time"
)

// Delays are measured delays, in any order.
type Delays []time.Duration

// Quantile returns the smallest delay that at least the fraction q of all delays do not exceed (nearest rank); 0 if
// there are none.
func (d Delays) Quantile(q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	rank := min(max(int(math.Ceil(q*float64(len(d))))-1, 0), len(d)-1)
	return slices.Sorted(slices.Values(d))[rank]
}
