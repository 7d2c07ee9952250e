package rtpframe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
)

// step is a packet that is asked about, and whether it goes.
type step struct {
	frame uint32
	kind  Kind
	goes  bool
}

// TestFlow asks about the packets of frames, with a bucket that is empty, that has some bytes, or that is full.
func TestFlow(t *testing.T) {
	const now = clock.Time(time.Hour)
	bucket := claim.Bucket{Rate: 1000, Burst: 1000}
	for name, tt := range map[string]struct {
		level time.Duration // of the bucket, which holds a second
		steps []step
	}{
		"all": {time.Second, []step{{1, Key, true}, {2, Delta, true}, {3, Disposable, true}, {4, Part, true}}},
		"what is less important goes first": {300 * time.Millisecond, []step{
			{1, Key, true}, {2, Delta, true}, {3, Disposable, false}, {3, Disposable, false}, {4, Delta, true},
		}},
		"nothing depends on what has gone": {100 * time.Millisecond, []step{
			{1, Key, true}, {2, Delta, false}, {3, Disposable, false}, {4, Part, false}, {5, Sound, true},
			{6, Key, true}, {7, Part, true},
		}},
		"whole frames": {100 * time.Millisecond, []step{
			{1, Key, true}, {1, Delta, true}, {2, Delta, false}, {2, Key, false}, {1, Part, true},
		}},
		"late packets": {100 * time.Millisecond, []step{
			{1, Delta, false}, {16, Key, true}, {1, Delta, false}, {17, Key, true}, {1, Delta, true},
		}},
		"packets that come later still": {100 * time.Millisecond, []step{
			{1, Delta, false}, {2, Key, true}, {3, Key, true}, {1, Delta, false}, {2, Delta, true},
		}},
		"forgotten packets": {100 * time.Millisecond, []step{
			{9, Key, true}, {10, Delta, false}, {25, Key, true}, {9, Key, false}, {1, Delta, false}, {26, Key, true},
			{10, Delta, true},
		}},
		"an empty bucket": {-time.Second, []step{
			{1, Key, false}, {2, Delta, false}, {3, Sound, true}, {4, Other, true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var f Flow
			f.SetBucket(bucket, now.Add(time.Second-tt.level))
			for i, s := range tt.steps {
				require.Equal(t, s.goes, f.Judge(s.frame, Question{Kind: s.kind, Size: 100, Now: now}), "step %d", i)
			}
			f.Forget()
			f.SetRate(0)
			require.True(t, f.Judge(1, Question{Kind: Delta, Now: now}), "without a bucket everything goes")
		})
	}
}

// refusal is a rule.
type refusal struct{ asked []claim.Admission }

func (r *refusal) Admit(_ *claim.ConnState, a claim.Admission) claim.Verdict {
	r.asked = append(r.asked, a)
	return claim.Declined
}

// TestRule asks another rule, once for a frame.
func TestRule(t *testing.T) {
	var f Flow
	r := new(refusal)
	for range 3 {
		require.False(t, f.Judge(1, Question{Kind: Key, Size: 100, Now: 7, Rule: r}))
		require.False(t, f.Judge(2, Question{Kind: Delta, Size: 100, Now: 7, Rule: r}))
	}
	require.Equal(t, []claim.Admission{{Level: 128<<8 | 96, Size: 100, Now: 7, Group: 1}}, r.asked)
}

// TestMend goes on without a key frame.
func TestMend(t *testing.T) {
	var f Flow
	f.SetBucket(claim.Bucket{Rate: 1, Burst: 1}, clock.Time(time.Hour))
	require.False(t, f.Judge(1, Question{Kind: Key}))
	f.SetRate(0)
	require.False(t, f.Judge(2, Question{Kind: Delta}))
	f.Mend()
	require.True(t, f.Judge(3, Question{Kind: Delta}))
	require.False(t, f.Judge(2, Question{Kind: Delta}), "what was decided stays")
}

// TestUnlimited needs no memory for a player that has no bucket.
func TestUnlimited(t *testing.T) {
	var f Flow
	frame := uint32(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		frame++
		f.Judge(frame, Question{Kind: Delta})
	}))
}

// TestCharge takes more from the bucket than it has.
func TestCharge(t *testing.T) {
	const now = clock.Time(time.Hour)
	var f Flow
	f.Charge(1000, now)
	require.Zero(t, f.full.Load())
	f.SetRate(1000) // the bucket has 1000 bytes
	goes := func() bool { return f.Judge(uint32(f.decided.Load()>>32)+1, Question{Kind: Key, Now: now}) }
	require.True(t, goes())
	f.Charge(990, now)
	require.True(t, goes())
	f.Charge(20, now)
	require.False(t, goes())
}

// TestFollow goes on with the numbers of frames elsewhere.
func TestFollow(t *testing.T) {
	var a, b Frames
	a.Number(3000, 7)
	a.Number(6000, 8)
	b.Follow(&a)
	require.EqualValues(t, 1, b.Number(3000, 7))
	require.EqualValues(t, 2, b.Number(6000, 8))
	require.EqualValues(t, 3, b.Number(3000, 9))
}

// TestNumber has packets come in another order, again, late, and too late.
func TestNumber(t *testing.T) {
	var f Frames
	const tick, first = 100, 100_000
	for i := range uint32(20) {
		require.EqualValues(t, i+1, f.Number(first+i*tick, uint16(2*i)))
	}
	for i, p := range []struct {
		timestamp uint32
		sequence  uint16
		want      uint32
	}{
		{first + 21*tick, 42, 21}, {first + 20*tick, 40, 22}, // a frame that comes after the next one
		{first + 21*tick, 43, 21}, {first + 20*tick, 41, 22},
		{first + 19*tick, 39, 20}, {first + 15*tick, 42, 16}, // it does not come behind all others
		{first + 6*tick, 13, 7}, {first, 1, 7}, // its frame is forgotten
		{first + 6*tick - lateHistories*14*tick, 1, 7}, {first + 15*tick, 44, 23}, // a clip that begins again
		{first + 22*tick, 46, 24}, {first + 15*tick, 31, 23}, // the newest of two
		{first + 10*tick, 1, 11}, {first - 100*tick, 1, 25}, // a publisher that counts anew
	} {
		require.Equal(t, p.want, f.Number(p.timestamp, p.sequence), "packet %d", i)
	}
	require.EqualValues(t, 1, new(Frames).Number(0, 7))
}
