package media

import (
	"encoding/hex"
	"sluice/internal/packet"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const time10 = 10 * time.Millisecond

var chachaBytes = []byte("another secret of 32 bytes......")

func TestVarint(t *testing.T) {
	for _, v := range []struct {
		n    uint64
		want string
	}{ // RFC 9000 §A.1 and the limits of each length
		{0, "00"}, {37, "25"}, {63, "3f"}, {64, "4040"}, {15293, "7bbd"}, {16383, "7fff"}, {16384, "80004000"},
		{494878333, "9d7f3e7d"}, {1<<30 - 1, "bfffffff"}, {1 << 30, "c000000040000000"}, {151288809941952652, "c2197c5eff14e88c"},
		{1<<62 - 1, "ffffffffffffffff"},
	} {
		b := packet.AppendVarint(nil, v.n)
		require.Equal(t, v.want, hex.EncodeToString(b))
		require.Equal(t, len(b), packet.VarintLength(v.n))
	}
}

func TestFrames(t *testing.T) {
	for _, v := range []struct {
		name string
		b    []byte
		want string
	}{
		{"first bytes", packet.AppendStreamHeader(nil, 3, 0, false), "0803"},
		{"all bytes", packet.AppendStreamHeader(nil, 3, 0, true), "0903"},
		{"later bytes", packet.AppendStreamHeader(nil, 67, 16384, false), "0c404380004000"},
		{"last bytes", packet.AppendStreamHeader(nil, 67, 16384, true), "0d404380004000"},
		{"ping", packet.AppendFrame(nil, packet.FramePing), "01"},
		{"reset", packet.AppendFrame(nil, packet.FrameResetStream, 7, 0x102, 100), "040741024064"},
		{"data blocked", packet.AppendFrame(nil, packet.FrameDataBlocked, 5), "1405"},
		{"stream data blocked", packet.AppendFrame(nil, packet.FrameStreamDataBlocked, 3, 5), "150305"},
		{"streams blocked", packet.AppendFrame(nil, packet.FrameStreamsBlockedUni, 5), "1705"},
	} {
		require.Equal(t, v.want, hex.EncodeToString(v.b), v.name)
	}
	for _, id := range []int64{3, 67, 1 << 20, 1 << 33} {
		for _, offset := range []int64{0, 1, 100, 20_000, 1 << 31} {
			require.Equal(t, len(packet.AppendStreamHeader(nil, id, offset, true)), packet.StreamHeaderLength(id, offset))
		}
	}
}
