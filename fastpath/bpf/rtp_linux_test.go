package bpf_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf/bpftest"
	"sluice/internal/rtpframe"
)

const (
	h264, h265, av1                     = rtpframe.H264, rtpframe.H265, rtpframe.AV1
	part, disposable, delta, key, sound = rtpframe.Part, rtpframe.Disposable, rtpframe.Delta, rtpframe.Key,
		rtpframe.Sound
)

var kinds = []struct {
	name    string
	codec   rtpframe.Codec
	payload []byte
	want    rtpframe.Kind
}{
	{"audio", rtpframe.Audio, []byte{1}, sound},
	{"another codec", rtpframe.Unknown, []byte{0x65}, rtpframe.Other},

	{"IDR slice", h264, []byte{0x65, 1}, key},
	{"SPS", h264, []byte{0x67, 1}, key},
	{"PPS", h264, []byte{0x68, 1}, part},
	{"SEI", h264, []byte{0x06, 1}, part},
	{"delimiter", h264, []byte{0x09, 1}, part},
	{"slice", h264, []byte{0x41, 1}, delta},
	{"slice of no importance", h264, []byte{0x01, 1}, disposable},
	{"partition", h264, []byte{0x42, 1}, delta},
	{"one byte", h264, []byte{0x41}, delta},
	{"STAP-A with SPS", h264, []byte{24, 0, 1, 0x09, 0, 1, 0x67}, key},
	{"STAP-A with SEI and slice", h264, []byte{24, 0, 2, 0x06, 1, 0, 1, 0x41}, delta},
	{"STAP-A with SEI and disposable slice", h264, []byte{24, 0, 2, 0x06, 1, 0, 1, 0x01}, disposable},
	{"STAP-A cut off", h264, []byte{24, 0, 9, 0x67}, part},
	{"STAP-A with an empty unit", h264, []byte{24, 0, 0, 0, 1, 0x67}, part},
	{"STAP-A, the eighth unit", h264, append([]byte{24}, units(7, 0x67)...), key},
	{"STAP-A, the ninth unit", h264, append([]byte{24}, units(8, 0x67)...), part},
	{"FU-A of IDR", h264, []byte{0x7c, 0x85}, key},
	{"FU-A of slice", h264, []byte{0x5c, 0x01}, delta},
	{"FU-A of disposable slice", h264, []byte{0x1c, 0x41}, disposable},
	{"FU-A cut off", h264, []byte{0x7c}, delta},
	{"FU-B", h264, []byte{29, 0, 0, 5}, delta},

	{"CRA", h265, []byte{21 << 1, 1, 0}, key},
	{"VPS", h265, []byte{32 << 1, 1, 0}, key},
	{"PPS", h265, []byte{34 << 1, 1, 0}, part},
	{"SEI", h265, []byte{39 << 1, 1, 0}, part},
	{"TRAIL_R", h265, []byte{1 << 1, 1, 0}, delta},
	{"TRAIL_N of the highest sub-layer", h265, []byte{0 << 1, 2, 0}, disposable},
	{"TRAIL_N below it", h265, []byte{0 << 1, 1, 0}, delta},
	{"TSA_R", h265, []byte{3 << 1, 2, 0}, delta},
	{"reserved", h265, []byte{15 << 1, 2, 0}, delta},
	{"AP with SPS", h265, []byte{48 << 1, 1, 0, 2, 35 << 1, 1, 0, 2, 33 << 1, 1}, key},
	{"AP with a slice", h265, []byte{48 << 1, 1, 0, 2, 35 << 1, 1, 0, 2, 1 << 1, 1}, delta},
	{"AP with a unit without a header", h265, []byte{48 << 1, 1, 0, 1, 33 << 1, 0, 2, 33 << 1, 1}, part},
	{"FU of IDR", h265, []byte{49 << 1, 1, 0x80 | 19}, key},
	{"FU of TRAIL_N", h265, []byte{49 << 1, 2, 0x80}, disposable},
	{"FU cut off", h265, []byte{49 << 1, 1}, delta},
	{"PACI", h265, []byte{50 << 1, 1, 0, 0}, delta},
	{"cut off", h265, []byte{19 << 1}, part},

	{"N", av1, []byte{0x18, 0x30}, key},
	{"sequence header without N", av1, []byte{0x10, 1 << 3, 0}, key},
	{"sequence header after a delimiter", av1, []byte{0x20, 2, 2 << 3, 0, 1 << 3, 0}, key},
	{"frame", av1, []byte{0x10, 6 << 3, 0}, delta},
	{"frame after metadata", av1, []byte{0x20, 2, 5 << 3, 0, 6 << 3, 0}, delta},
	{"frame header of the base layer", av1, []byte{0x10, 3<<3 | 4, 0, 9}, delta},
	{"frame of an upper layer", av1, []byte{0x10, 6<<3 | 4, 1 << 5, 9}, disposable},
	{"its extension is missing", av1, []byte{0x10, 6<<3 | 4}, delta},
	{"fragment", av1, []byte{0x90, 1 << 3, 0}, part},
	{"elements with lengths", av1, []byte{0, 1, 2 << 3, 1, 1 << 3}, key},
	{"a length of two bytes", av1, slices.Concat([]byte{0x20, 0x80 | 72, 1, 2 << 3}, make([]byte, 199), []byte{6 << 3}),
		delta},
	{"a length of three bytes", av1, []byte{0, 0x81, 0x80, 0, 1 << 3}, part},
	{"length beyond the end", av1, []byte{0, 9, 1 << 3}, part},
	{"an empty element", av1, []byte{0, 0, 1, 1 << 3}, key},
	{"the eighth element", av1, append([]byte{0}, elements(7, 1<<3)...), key},
	{"the ninth element", av1, append([]byte{0}, elements(8, 1<<3)...), part},
	{"one byte", av1, []byte{0x18}, part},
}

// units are n delimiters and another NAL unit, aggregated.
func units(n int, last byte) (b []byte) {
	for range n {
		b = append(b, 0, 1, 9)
	}
	return append(b, 0, 1, last)
}

// elements are n temporal delimiters and another OBU.
func elements(n int, last byte) (b []byte) {
	for range n {
		b = append(b, 1, 2<<3)
	}
	return append(b, 1, last)
}

// TestKinds has both senders read payloads.
func TestKinds(t *testing.T) {
	k := bpftest.NewRTP(t)
	for _, tt := range kinds {
		ours, theirs := uint32(2), uint32(2)
		require.Equal(t, tt.want, rtpframe.KindOf(tt.codec, tt.payload, &ours), tt.name)
		require.Equal(t, tt.want, k.Kind(t, tt.codec, tt.payload, &theirs), tt.name)
		require.EqualValues(t, 2, ours, tt.name)
		require.EqualValues(t, 2, theirs, tt.name)
	}
	var ours, theirs uint32 // they learn of sub-layers
	higher := []byte{48 << 1, 1, 0, 2, 0, 2, 0, 2, 0, 3}
	require.Equal(t, disposable, rtpframe.KindOf(h265, higher, &ours))
	require.Equal(t, disposable, k.Kind(t, h265, higher, &theirs))
	require.Equal(t, []uint32{3, 3}, []uint32{ours, theirs})
	require.Equal(t, part, rtpframe.KindOf(h264, nil, &ours))
}

// FuzzKinds checks that both senders read any payload alike.
func FuzzKinds(f *testing.F) {
	k := bpftest.NewRTP(f)
	for _, tt := range kinds {
		f.Add(uint32(tt.codec), tt.payload, uint32(1))
	}
	f.Fuzz(func(t *testing.T, codec uint32, payload []byte, temporal uint32) {
		codec, temporal = codec%6, temporal%8
		if len(payload) == 0 || len(payload) > 1472 {
			return
		}
		ours, theirs := temporal, temporal
		kind := rtpframe.KindOf(rtpframe.Codec(codec), payload[:len(payload):len(payload)], &ours)
		require.Equal(t, kind, k.Kind(t, rtpframe.Codec(codec), payload, &theirs))
		require.Equal(t, ours, theirs)
	})
}

// numbers has both senders number the frames of packets, and requires that they agree.
type numbers struct {
	k            *bpftest.RTP
	ours, theirs rtpframe.Frames
}

func (n *numbers) of(t *testing.T, timestamp uint32, sequence uint16) uint32 {
	number := n.ours.Number(timestamp, sequence)
	require.Equal(t, number, n.k.Number(t, &n.theirs, timestamp, sequence), "timestamp %d", timestamp)
	require.Equal(t, bpftest.Bytes(&n.ours), bpftest.Bytes(&n.theirs))
	return number
}

// TestTimestampsGoBack has timestamps go back, while sequence numbers go on or begin anew. Each frame has a number of
// its own, also when the packets of two frames come in another order.
func TestTimestampsGoBack(t *testing.T) {
	const frame = 3600 // at 25 frames a second
	k := bpftest.NewRTP(t)
	for name, tt := range map[string]struct {
		timestamp func(i int) int
		anew      int // how often sequence numbers begin anew, in frames; 0: never
	}{
		"the clock is set back by 2 s":         {func(i int) int { return (i - 50*min(i/200, 1)) * frame }, 0},
		"by 10 s, at 1 frame a second":         {func(i int) int { return (i - 10*min(i/200, 1)) * 25 * frame }, 0},
		"again and again":                      {func(i int) int { return (i - i/60*50) * frame }, 0},
		"a clip of 2 s":                        {func(i int) int { return i % 50 * frame }, 0},
		"a clip of 10 frames":                  {func(i int) int { return i % 10 * frame }, 0},
		"a clip of 2 frames":                   {func(i int) int { return i % 2 * frame }, 0},
		"B-frames":                             {func(i int) int { return (i + []int{0, 2, -1, -1}[i%4]) * frame }, 0},
		"a clip with its own sequence numbers": {func(i int) int { return i % 50 * frame }, 50},
	} {
		t.Run(name, func(t *testing.T) {
			n := &numbers{k: k}
			at := func(i, packet int) uint32 {
				sequence := i*3 + packet
				if tt.anew > 0 {
					sequence = i%tt.anew*3 + packet
				}
				return n.of(t, 1<<31+uint32(tt.timestamp(i)), 65000+uint16(sequence))
			}
			for i := range 1000 {
				number := uint32(i + 1)
				if tt.anew > 0 && i > 0 && i%tt.anew == 0 {
					n.ours.Restart()
					n.theirs.Restart()
				} else if i > 0 {
					require.Equal(t, number, at(i, 0))
					require.Equal(t, number-1, at(i-1, 2), "late")
				}
				require.Equal(t, number, at(i, 1))
				require.Equal(t, number, at(i, 0), "again")
			}
		})
	}
}

// FuzzFrameNumbers checks that both senders number any packets alike.
func FuzzFrameNumbers(f *testing.F) {
	k := bpftest.NewRTP(f)
	f.Add([]byte{1, 1, 2, 1, 1, 3, 30, 4, 5, 5})
	f.Add(slices.Repeat([]byte{5, 1, 6, 1, 7, 1, 5, 1}, 10))
	f.Add(slices.Repeat([]byte{1, 255}, 40))
	f.Add([]byte{1, 1, 3, 4, 2, 0xfe, 3, 3, 2, 0xfe, 1, 0xfe, 3, 5, 4, 1}) // a frame that comes after the next one
	var many []byte
	for i := range byte(60) {
		back := i * 7 % 40
		many = append(many, i, 3, i-back, -(3 * back), i, 3*back) // again, and late
	}
	f.Add(many)
	f.Fuzz(func(t *testing.T, b []byte) {
		n := &numbers{k: k}
		sequence := uint16(0)
		for b = b[:min(len(b), 400)]; len(b) >= 2; b = b[2:] {
			sequence += uint16(int8(b[1]))
			if b[1] == 128 {
				sequence += 0x7f80 // far away
			}
			n.of(t, uint32(int8(b[0]))*3000, sequence)
		}
	})
}

// TestSameFrames has both senders decide about frames, with packets of several kinds, late ones, and a bucket that is
// full, empty or not there: they decide the same.
func TestSameFrames(t *testing.T) {
	k := bpftest.NewRTP(t)
	r := rand.New(rand.NewPCG(1, 2))
	var ours, theirs rtpframe.Flow
	seen := make(map[bpftest.RTPReason]int)
	number := uint32(1)
	for range 3000 {
		if r.IntN(20) == 0 {
			for _, f := range []*rtpframe.Flow{&ours, &theirs} {
				f.SetRate(0)
			}
		}
		if r.IntN(4) == 0 { // no level is nearer to a limit than 100 s: the kernel's clock goes on
			full := monotonic().Add(time.Duration(r.IntN(6))*200*time.Second + 100*time.Second)
			for _, f := range []*rtpframe.Flow{&ours, &theirs} {
				f.SetBucket(claim.Bucket{Rate: 1000, Burst: 800_000}, full)
			}
		}
		p := bpftest.RTPRtpPart{Frame: number, Kind: uint32(r.IntN(6)), Len: uint32(100 + r.IntN(1000))}
		switch r.IntN(10) {
		case 0:
			p.Frame -= uint32(r.IntN(20))
		case 1:
			number += uint32(r.IntN(20))
		case 2:
			number++
		}
		goes := ours.Judge(p.Frame, rtpframe.Question{
			Kind: rtpframe.Kind(p.Kind), Size: int(p.Len), Now: monotonic(),
		})
		why := k.Goes(t, &theirs, p)
		require.Equal(t, goes, why == bpftest.RTPReasonCOPY_SENT, "%+v: %v", p, why)
		require.Equal(t, bpftest.Bytes(&ours), bpftest.Bytes(&theirs), "%+v: %v", p, why)
		seen[why]++
	}
	require.Len(t, seen, 4, "%v", seen)
}
