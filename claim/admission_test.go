package claim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
)

const noon = clock.Time(12 * time.Hour)

func newBucket(b Bucket) *ConnState {
	s := new(ConnState)
	s.Threshold.Store(60)
	s.MTU.Store(1200)
	s.Window.Store(3000)
	s.SetBucket(b)
	return s
}

func TestAdmit(t *testing.T) {
	for _, tt := range []struct {
		level    uint32
		size     int
		inFlight uint64
		filled   int // parts of 256
		want     Verdict
	}{
		{61, 0, 0, 256, BeyondThreshold},
		{60, 0, 9999, 256, Admitted}, // a stream takes no room
		{60, 1200, 1800, 256, Admitted},
		{60, 1200, 1801, 256, WindowFull},
		{60, 1201, 0, 256, TooLarge},
		{5, 1200, 0, -999, Admitted}, // although the bucket is overdrawn
		{15, 1200, 0, 0, BucketLow},
		{15, 1200, 0, 1, Admitted},
		{25, 1200, 0, 64, BucketLow},
		{25, 1200, 0, 65, Admitted},
		{35, 1200, 0, 128, BucketLow},
		{35, 1200, 0, 129, Admitted},
		{45, 1200, 0, 192, BucketLow},
		{45, 0, 0, 192, BucketLow},
		{45, 1200, 0, 193, Admitted},
	} {
		s := newBucket(Bucket{Rate: 1000, Burst: 1000, Bounds: [4]uint16{10, 20, 30, 40}})
		s.InFlight.Store(tt.inFlight)
		s.FillBucket(noon, tt.filled)
		require.Equal(t, tt.want, s.Admit(Admission{Level: tt.level, Size: tt.size, Now: noon}), "%+v", tt)
	}
}

// Two classes are empty: their bounds repeat those before.
func TestClass(t *testing.T) {
	s := newBucket(Bucket{Rate: 1, Burst: 1, Bounds: [4]uint16{10, 20, 20, 20}})
	for level, class := range map[uint32]int{0: 0, 10: 0, 11: 1, 20: 1, 21: 4, 0xffff: 4} {
		require.Equal(t, class, s.Class(level), "level %d", level)
	}
}

// A bucket fills at its rate, and not beyond its size.
func TestCharge(t *testing.T) {
	s := newBucket(Bucket{Rate: 10_240, Burst: 20_480, Bounds: [4]uint16{10, 60, 60, 60}})
	now := noon
	require.True(t, s.Affords(20, now))
	s.Charge(30_720, now) // at once: the last packet goes whole
	require.False(t, s.Affords(20, now))
	require.False(t, s.Affords(20, now.Add(time.Second)))
	require.True(t, s.Affords(20, now.Add(time.Second+1)))
	now = now.Add(time.Hour)
	s.Charge(20_480, now)
	require.False(t, s.Affords(20, now), "an hour has not saved up more")
	s.SetBucket(Bucket{})
	require.True(t, s.Affords(20, now), "there is no bucket")
	before := s.BucketAt.Load()
	s.Charge(1000, now)
	require.Equal(t, before, s.BucketAt.Load())
}

// Class 0 has exceeded the rate for ten minutes. The others wait until what the bucket holds is paid back, not for all.
func TestDebt(t *testing.T) {
	b := Bucket{Rate: 100_000, Burst: 200_000, Bounds: [4]uint16{10, 20, 30, 40}}
	s, now := newBucket(b), noon
	for range 600 {
		s.Charge(125_000, now)
		now = now.Add(time.Second)
	}
	b.Rate, b.Burst = 100*b.Rate, 100*b.Burst // the path is better
	s.SetBucket(b)
	require.False(t, s.Affords(20, now))
	require.True(t, s.Affords(20, now.Add(2300*time.Millisecond)))
}

func TestBucketBounds(t *testing.T) {
	s := newBucket(Bucket{Rate: 1, Burst: 1 << 40})
	require.Equal(t, uint32(maxBucket), s.BucketCost.Load())
	require.Equal(t, uint32(maxBucket), s.BucketBurst.Load())
	s.SetBucket(Bucket{Rate: 1 << 62, Burst: 1})
	require.Equal(t, uint32(1), s.BucketCost.Load())
}
