package bpf_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
	"sluice/fastpath/bpf/bpftest"
)

// verdicts are the answers of user space's rule, as the programs name them.
var verdicts = map[claim.Verdict]bpftest.PolicyReason{
	claim.Admitted:        bpftest.PolicyReasonCOPY_SENT,
	claim.BeyondThreshold: bpftest.PolicyReasonCOPY_PRIORITY,
	claim.BucketLow:       bpftest.PolicyReasonCOPY_BUCKET,
	claim.TooLarge:        bpftest.PolicyReasonCOPY_TOO_LARGE,
	claim.WindowFull:      bpftest.PolicyReasonCOPY_WINDOW,
	claim.Paced:           bpftest.PolicyReasonCOPY_PACED,
}

// TestSamePolicy asks both senders' rules the same: by cases that are at the limits, and by chance.
func TestSamePolicy(t *testing.T) {
	k := bpftest.NewPolicy(t)
	r := rand.New(rand.NewPCG(1, 2))
	seen := make(map[claim.Verdict]int)
	bounds := [4]uint16{10, 20, 30, 40}
	for range 3000 {
		var s claim.ConnState
		s.Window.Store(uint64(3000 + r.IntN(3)))
		s.InFlight.Store(uint64(1800 + r.IntN(3)))
		s.MTU.Store(uint32(1200 - r.IntN(2)))
		s.Threshold.Store(uint32(35 + r.IntN(20)))
		level := uint32(r.IntN(60))
		if r.IntN(4) > 0 {
			s.SetBucket(claim.Bucket{Rate: 100_000, Burst: 100_000, Bounds: bounds})
		}
		// The kernel's clock goes on while the test decides: no case is nearer to a limit than 10 s.
		s.BucketBurst.Store(400_000_000)
		quarters := r.IntN(6) - 1
		s.BucketAt.Store(uint64(int64(monotonic()) + int64(400*time.Second) -
			int64(quarters)*int64(100*time.Second) - int64(50*time.Second)))
		s.PaceCost.Store(uint32(r.IntN(2)))
		s.PaceBurst.Store(100_000_000)
		s.PacedAt.Store(uint64(monotonic().Add(time.Duration(1+r.IntN(2)) * 50 * time.Second * 4 / 3)))
		s.PaceWaits.Store(uint32(r.IntN(4) / 3))
		size := []uint32{0, 1199, 1200}[r.IntN(3)]
		why := k.MayGo(t, &s, level, size)
		want := s.Admit(claim.Admission{Level: level, Size: int(size), Now: monotonic()})
		require.Equal(t, verdicts[want], why, "level %d, %d bytes, %d quarters, %+v", level, size, quarters, want)
		seen[want]++
	}
	require.Len(t, seen, len(verdicts), "not all answers were given: %v", seen)
}

// TestSameBucket takes packets from a bucket, and from a pacer's, as both senders do.
func TestSameBucket(t *testing.T) {
	k := bpftest.NewPolicy(t)
	for _, b := range []claim.Bucket{{}, {Rate: 1, Burst: 1}, {Rate: 150_000, Burst: 300_000},
		{Rate: 10_000_000_000, Burst: 1}} {
		for _, at := range []uint64{0, 999, 1000, 1_999_999_999, 2_000_001_000, 4_000_001_000, 4_000_001_001, 1 << 50} {
			var s claim.ConnState
			s.SetBucket(b)
			s.BucketAt.Store(at)
			s.PaceCost.Store(s.BucketCost.Load())
			s.PaceBurst.Store(s.BucketBurst.Load())
			s.PacedAt.Store(at + 1)
			bucket, pacer := k.Take(t, &s, 1452, 1000)
			s.Charge(1452, 1000)
			require.Equal(t, s.BucketAt.Load(), bucket, "%+v at %d", b, at)
			require.Equal(t, s.PacedAt.Load(), pacer, "%+v at %d", b, at)
		}
	}
}

func monotonic() clock.Time { return clock.NewSystem().Now() }
