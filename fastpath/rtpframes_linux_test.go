package fastpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
	"sluice/fastpath/bpf/bpftest"
	"sluice/internal/rtpframe"
	"sluice/lab"
)

// First bytes of H.264 NAL units.
const (
	idrSlice, slice, disposableSlice, delimiter = 0x65, 0x41, 0x01, 0x09
)

// ofFrame is a packet of a frame, with a NAL unit.
func ofFrame(sequence, frame int, unit byte) []byte {
	p := rtpPacket(frame, []byte{unit}, make([]byte, 1000))
	p[2], p[3] = byte(sequence>>8), byte(sequence)
	return p
}

// TestRTPFrames has frames come while a player's bucket has few bytes, and then none. A frame goes whole or not at all,
// and nothing goes that depends on a missing frame. User space, which asks about the same packets, decides the same.
func TestRTPFrames(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{})
	p := r.join(r.lab.Subscribers[0])
	p.Forward(true)
	bucket := claim.Bucket{Rate: 250, Burst: 250 * 4000} // the test takes less than some 100 of its 4,000 seconds
	fill := func(level time.Duration) {
		full := clock.NewSystem().Now().Add(4000*time.Second - level)
		p.Flow(func(f *rtpframe.Flow) { f.SetBucket(bucket, full) })
	}
	kinds := map[byte]rtpframe.Kind{
		idrSlice: rtpframe.Key, slice: rtpframe.Delta, disposableSlice: rtpframe.Disposable, delimiter: rtpframe.Part,
	}
	for i, tt := range []struct {
		level time.Duration // of the bucket from now on; 0: it goes on
		frame int
		unit  byte
		why   string
	}{
		{1500 * time.Second, 1, delimiter, "copy_sent"},
		{0, 1, idrSlice, "copy_sent"},
		{0, 2, slice, "copy_sent"},
		{0, 3, disposableSlice, "copy_bucket"},
		{0, 3, disposableSlice, "copy_frame"},
		{0, 4, slice, "copy_sent"},
		{0, 4, slice, "copy_sent"},
		{500 * time.Second, 4, slice, "copy_sent"},
		{0, 5, delimiter, "copy_sent"},
		{0, 5, slice, "copy_bucket"},
		{3500 * time.Second, 5, slice, "copy_frame"},
		{0, 6, delimiter, "copy_dependent"},
		{0, 6, slice, "copy_dependent"},
		{0, 6, delimiter, "copy_frame"},
		{0, 7, disposableSlice, "copy_dependent"},
		{0, 8, idrSlice, "copy_sent"},
		{0, 9, disposableSlice, "copy_sent"},
		{2 * time.Second, 10, idrSlice, "copy_sent"}, // one packet takes four
		{-200 * time.Second, 10, idrSlice, "copy_sent"},
		{0, 11, idrSlice, "copy_bucket"},
		{0, 12, slice, "copy_dependent"},
	} {
		if tt.level != 0 {
			fill(tt.level)
		}
		packet := ofFrame(i+1, tt.frame, tt.unit)
		goes := tt.why == "copy_sent"
		require.Equal(t, map[string]uint64{"rtp_forwarded": 1, tt.why: 1}, r.counted(func() { r.run(packet) }), "%d", i)
		if goes {
			require.Equal(t, p.copyOf(packet), r.receive(p), "%d", i)
		}
		served := r.take(packet)
		require.Equal(t, goes, served.Has(p.RTPPlayer), "%d", i)
		var number uint32
		require.True(t, r.media.Frames(func(f *rtpframe.Frames) {
			number = f.Number(rtpTimestamp(tt.frame), uint16(i+1))
		}))
		require.EqualValues(t, tt.frame, number)
		p.Flow(func(f *rtpframe.Flow) {
			q := rtpframe.Question{Kind: kinds[tt.unit], Now: clock.NewSystem().Now()}
			require.Equal(t, goes, f.Judge(number, q), "%d", i)
		})
	}
	var own rtpframe.Flow
	own.Copy(p.flow)
	p.Leave()
	require.NotEqual(t, bpftest.Bytes(&own), bpftest.Bytes(p.flow), "user space goes on with what the kernel decided")
	p.Flow(func(f *rtpframe.Flow) { require.Same(t, p.flow, f) })
}

// TestRTPUnlimited has the kernel look at frames only when something may not go to a player: from then on, also after
// the limit has ended, because it may have broken off a frame that others depend on.
func TestRTPUnlimited(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{})
	p := r.join(r.lab.Subscribers[0])
	p.Forward(true)
	sequence := 0
	looks := func() bool {
		before, after := new(rtpframe.Frames), new(rtpframe.Frames)
		r.media.Frames(before.Follow)
		sequence++
		r.run(ofFrame(sequence, sequence, slice))
		r.media.Frames(after.Follow)
		return string(bpftest.Bytes(before)) != string(bpftest.Bytes(after))
	}
	require.False(t, looks())
	p.Flow(func(*rtpframe.Flow) {})
	require.False(t, looks())
	p.Flow(func(f *rtpframe.Flow) { f.SetRate(1000) })
	require.True(t, looks())
	p.Flow(func(f *rtpframe.Flow) { f.SetRate(0) })
	require.True(t, looks())
}

// TestRTPTemporal has the kernel learn the highest temporal id from user space: below it, no slice is disposable.
func TestRTPTemporal(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{})
	p := r.join(r.lab.Subscribers[0])
	p.Forward(true)
	r.media.shared.Codec = uint32(rtpframe.H265)
	full := clock.NewSystem().Now().Add(2500 * time.Second) // 1,500 of 4,000 seconds are left
	p.Flow(func(f *rtpframe.Flow) { f.SetBucket(claim.Bucket{Rate: 250, Burst: 250 * 4000}, full) })
	const trailN = 0
	for i, why := range []string{"copy_bucket", "copy_sent"} {
		r.media.Frames(func(f *rtpframe.Frames) { f.Raise(uint32(2 * i)) })
		packet := ofFrame(i+1, i+1, trailN)
		packet[13] = 1 // TemporalId plus 1
		require.Equal(t, map[string]uint64{"rtp_forwarded": 1, why: 1}, r.counted(func() { r.run(packet) }))
	}
}

// TestRTPLimitedBefore has a player join that has a limit already, or that waits for a key frame since it had one.
func TestRTPLimitedBefore(t *testing.T) {
	var limited, broken rtpframe.Flow
	limited.SetRate(1000)
	broken.SetBucket(claim.Bucket{Rate: 1, Burst: 1}, clock.NewSystem().Now().Add(time.Hour))
	require.False(t, broken.Judge(1, rtpframe.Question{Kind: rtpframe.Delta, Now: clock.NewSystem().Now()}))
	broken.SetRate(0)
	for _, f := range []*rtpframe.Flow{&limited, &broken} {
		r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{})
		p := r.join(r.lab.Subscribers[0])
		r.media.Join(p.path, f)
		p.Forward(true)
		r.run(ofFrame(1, 1, slice))
		require.True(t, r.media.Frames(func(f *rtpframe.Frames) {
			require.NotEqual(t, bpftest.Bytes(new(rtpframe.Frames))[:8], bpftest.Bytes(f)[:8])
		}))
	}
}

// TestRTPCharge has the kernel take the bytes of copies from a player's bucket: as many as user space takes.
func TestRTPCharge(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{})
	p := r.join(r.lab.Subscribers[0])
	p.Forward(true)
	full := clock.NewSystem().Now().Add(1000 * time.Second)
	var ours rtpframe.Flow
	for _, f := range []func(func(*rtpframe.Flow)){p.Flow, func(use func(*rtpframe.Flow)) { use(&ours) }} {
		f(func(f *rtpframe.Flow) { f.SetBucket(claim.Bucket{Rate: 250, Burst: 250 * 4000}, full) })
	}
	packet := ofFrame(1, 1, idrSlice)
	r.run(packet)
	ours.Charge(len(packet), clock.NewSystem().Now())
	p.Flow(func(f *rtpframe.Flow) { require.Equal(t, bpftest.Bytes(&ours)[8:], bpftest.Bytes(f)[8:]) })
}

// TestRTPRule has an operator's rule decide, which admits each second frame (bpf/bpftest/rule.bpf.c). Both senders
// decide the same.
func TestRTPRule(t *testing.T) {
	rule := openRule(t)
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{Rule: rule})
	p := r.join(r.lab.Subscribers[0])
	p.Forward(true)
	var ours rtpframe.Flow
	for i := 1; i <= 8; i++ {
		q := rtpframe.Question{Kind: rtpframe.Key, Size: 1013, Now: clock.NewSystem().Now(), Rule: rule}
		goes := ours.Judge(uint32(i), q)
		why := map[bool]string{true: "copy_sent", false: "copy_policy"}[goes]
		got := r.counted(func() { r.run(ofFrame(i, i, idrSlice)) })
		require.Equal(t, map[string]uint64{"rtp_forwarded": 1, why: 1}, got)
		require.Equal(t, i%2 == 0, goes)
	}
}
