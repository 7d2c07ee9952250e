package packet

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVarint(t *testing.T) {
	for _, v := range []struct {
		n    uint64
		want string
	}{ // RFC 9000 §A.1 and the limits of each length
		{0, "00"}, {37, "25"}, {63, "3f"}, {64, "4040"}, {15293, "7bbd"}, {16383, "7fff"}, {16384, "80004000"},
		{494878333, "9d7f3e7d"}, {1<<30 - 1, "bfffffff"}, {1 << 30, "c000000040000000"},
		{151288809941952652, "c2197c5eff14e88c"},
		{1<<62 - 1, "ffffffffffffffff"},
	} {
		b := appendVarint(nil, v.n)
		require.Equal(t, v.want, hex.EncodeToString(b))
		require.Equal(t, len(b), varintLength(v.n))
	}
}

func TestFrames(t *testing.T) {
	for _, v := range []struct {
		name string
		b    []byte
		want string
	}{
		{"first bytes", AppendStreamHeader(nil, 3, 0, false), "0803"},
		{"all bytes", AppendStreamHeader(nil, 3, 0, true), "0903"},
		{"later bytes", AppendStreamHeader(nil, 67, 16384, false), "0c404380004000"},
		{"last bytes", AppendStreamHeader(nil, 67, 16384, true), "0d404380004000"},
		{"ping", AppendFrame(nil, FramePing), "01"},
		{"reset", AppendFrame(nil, FrameResetStream, 7, 0x102, 100), "040741024064"},
		{"data blocked", AppendFrame(nil, FrameDataBlocked, 5), "1405"},
		{"stream data blocked", AppendFrame(nil, FrameStreamDataBlocked, 3, 5), "150305"},
		{"streams blocked", AppendFrame(nil, FrameStreamsBlockedUni, 5), "1705"},
		{"ack frequency", AppendFrame(nil, FrameAckFrequency, 1, 9, 25_000, 1), "40af0109800061a801"},
		{"immediate ack", AppendFrame(nil, FrameImmediateAck), "1f"},
	} {
		require.Equal(t, v.want, hex.EncodeToString(v.b), v.name)
	}
	for _, id := range []int64{3, 67, 1 << 20, 1 << 33} {
		for _, offset := range []int64{0, 1, 100, 20_000, 1 << 31} {
			require.Equal(t, len(AppendStreamHeader(nil, id, offset, true)), StreamHeaderLength(id, offset))
		}
	}
}
