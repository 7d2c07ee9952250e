package packet

import (
	"math"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

// appendAck appends an ACK frame. ecn are its ECN counts, none or three.
func appendAck(b []byte, delay uint64, ranges []quic.AckRange, ecn ...uint64) []byte {
	length := func(r quic.AckRange) uint64 { return uint64(r.Largest - r.Smallest) }
	t := byte(FrameAck)
	if len(ecn) > 0 {
		t = FrameAckECN
	}
	b = AppendFrame(b, t, uint64(ranges[0].Largest), delay, uint64(len(ranges)-1), length(ranges[0]))
	for i, r := range ranges[1:] {
		b = appendVarint(b, uint64(ranges[i].Smallest-r.Largest-2))
		b = appendVarint(b, length(r))
	}
	for _, n := range ecn {
		b = appendVarint(b, n)
	}
	return b
}

var testAcks = []quic.AckInfo{
	{Ranges: []quic.AckRange{{Smallest: 0, Largest: 0}}},
	{Ranges: []quic.AckRange{{Smallest: 70, Largest: 90}, {Smallest: 68, Largest: 68}, {Smallest: 0, Largest: 5}}},
	{Ranges: []quic.AckRange{{Smallest: 1, Largest: 1<<62 - 1}}, ECT0: 1, ECT1: 70, ECNCE: 20_000},
}

func TestParseAck(t *testing.T) {
	a := new(quic.AckInfo)
	for _, want := range testAcks {
		var ecn []uint64
		if want.ECT0 > 0 {
			ecn = []uint64{want.ECT0, want.ECT1, want.ECNCE}
		}
		b := appendAck(nil, 100, want.Ranges, ecn...)
		rest, err := ParseAck(append(b, "rest"...), 3, a)
		require.NoError(t, err)
		require.Equal(t, "rest", string(rest))
		want.Delay = 800 * time.Microsecond
		require.Equal(t, want, *a)
		for n := range b {
			_, err := ParseAck(b[:n], 3, a)
			require.Error(t, err, "%d of %d bytes", n, len(b))
		}
	}
	for name, b := range map[string][]byte{
		"below 0":           AppendFrame(nil, FrameAck, 5, 0, 0, 6),
		"gap below 0":       AppendFrame(nil, FrameAck, 5, 0, 1, 0, 4, 0),
		"range below 0":     AppendFrame(nil, FrameAck, 5, 0, 1, 0, 0, 4),
		"many ranges":       AppendFrame(nil, FrameAck, 1<<62-1, 0, 1<<62-1, 0, 0, 0),
		"the largest gap":   AppendFrame(nil, FrameAck, 1<<62-1, 0, 1, 0, 1<<62-1, 0),
		"the largest range": AppendFrame(nil, FrameAck, 1<<62-1, 0, 1, 0, 0, 1<<62-1),
	} {
		_, err := ParseAck(b, 3, a)
		require.Error(t, err, name)
	}
}

func TestAckDelay(t *testing.T) {
	require.Equal(t, 5*time.Microsecond, ackDelay(5, 0))
	require.Equal(t, 5<<20*time.Microsecond, ackDelay(5, 20))
	for _, exponent := range []uint8{0, 3, 20, 255} {
		require.EqualValues(t, math.MaxInt64, ackDelay(1<<62-1, exponent))
	}
}

func FuzzParseAck(f *testing.F) {
	for _, a := range testAcks {
		f.Add(appendAck(nil, 1, a.Ranges), uint8(3))
		f.Add(appendAck(nil, 1<<40, a.Ranges, 1, 2, 3), uint8(20))
	}
	f.Add([]byte{0x40, FrameAckECN, 9, 0, 0, 0, 0, 0, 2}, uint8(3)) // its type is not the shortest
	f.Fuzz(func(t *testing.T, b []byte, exponent uint8) {
		defer testlimit.Start(t, len(b), 1000)()
		a := new(quic.AckInfo)
		rest, err := ParseAck(b, exponent, a)
		if err != nil {
			return
		}
		require.Less(t, len(rest), len(b))
		require.GreaterOrEqual(t, a.Delay, time.Duration(0))
		above := int64(math.MaxInt64)
		for _, r := range a.Ranges {
			require.GreaterOrEqual(t, r.Smallest, int64(0))
			require.LessOrEqual(t, r.Smallest, r.Largest)
			require.Less(t, r.Largest+1, above, "ranges do not touch")
			above = r.Smallest
		}
		var ecn []uint64
		if (&fields{b: b}).next() == FrameAckECN {
			ecn = []uint64{a.ECT0, a.ECT1, a.ECNCE}
		}
		again := new(quic.AckInfo)
		_, err = ParseAck(appendAck(nil, 0, a.Ranges, ecn...), 0, again)
		require.NoError(t, err)
		a.Delay = 0
		require.Equal(t, a, again)
	})
}
