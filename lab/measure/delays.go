package measure

import (
	"fmt"
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
	return slices.Sorted(slices.Values(d))[d.rank(q)]
}

func (d Delays) rank(q float64) int {
	return min(max(int(math.Ceil(q*float64(len(d))))-1, 0), len(d)-1)
}

// String returns the number of delays and their usual quantiles.
func (d Delays) String() string {
	if len(d) == 0 {
		return "no delays"
	}
	sorted := slices.Sorted(slices.Values(d))
	at := func(q float64) time.Duration { return sorted[d.rank(q)].Round(100 * time.Nanosecond) }
	return fmt.Sprintf("n %d  min %v  p50 %v  p90 %v  p99 %v  max %v", len(d), at(0), at(.5), at(.9), at(.99), at(1))
}
