package bpf_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf/bpftest"
)

type (
	frame  = bpftest.WalkFrame
	header = bpftest.WalkMediaHeader
)

const (
	done      = bpftest.WalkWalkResultWALK_DONE
	stopped   = bpftest.WalkWalkResultWALK_STOPPED
	malformed = bpftest.WalkWalkResultWALK_MALFORMED
)

var concat, stream, vi64 = bpftest.Concat, bpftest.Stream, bpftest.VI64

func TestWalkFrames(t *testing.T) {
	k := bpftest.NewWalk(t)
	media := func(id, offset uint64, data string) frame {
		return frame{StreamId: id, Offset: offset, Len: uint32(len(data)), Type: 0x0e}
	}
	x := stream(3, 9, 0, []byte("x"))
	onlyX := []frame{media(3, 9, "x")}
	ack := concat(2, uint64(1000), uint64(3), uint64(2), uint64(5), uint64(1), uint64(2), uint64(70000), uint64(9))
	tests := []struct {
		name    string
		payload []byte
		result  bpftest.WalkWalkResult
		frames  []frame
	}{
		{"stream with length and offset", stream(3, 77, 0, []byte("media")), done, []frame{media(3, 77, "media")}},
		{"stream to the end of the packet", concat(0x0c, uint64(7), uint64(1<<40), "media"), done,
			[]frame{{StreamId: 7, Offset: 1 << 40, Len: 5, Type: 0x0c}}},
		{"stream with fin, empty", stream(3, 77, 1, nil), done, []frame{{StreamId: 3, Offset: 77, Type: 0x0f, Fin: 1}}},
		{"two streams", concat(stream(3, 77, 0, []byte("ab")), stream(1<<30, 5, 0, []byte("cde"))), done,
			[]frame{media(3, 77, "ab"), media(1<<30, 5, "cde")}},
		{"among every frame of varints", concat(1, ack, 4, uint64(3), uint64(1<<20), uint64(9), 5, uint64(3), uint64(9),
			0x10, uint64(1<<40),
			0x11, uint64(3), uint64(99), 0x12, uint64(5), 0x13, uint64(5), 0x14, uint64(5),
			0x15, uint64(3), uint64(5), 0x16, uint64(5),
			0x17, uint64(5), 0x19, uint64(5), 0x1e, 0x1f,
			0x24, uint64(3), uint64(9), uint64(1<<20), uint64(1<<14),
			uint64(0xaf), uint64(1), uint64(10), uint64(25000), uint64(1), x), done, onlyX},
		{"behind ACK with ECN counts", concat(3, uint64(1000), uint64(3), uint64(1), uint64(5), uint64(1), uint64(2),
			uint64(70000), uint64(9), uint64(0),
			x), done, onlyX},
		{"behind connection IDs and paths", concat(0x18, uint64(1), uint64(0), 8, make([]byte, 8+16), 0x1a,
			make([]byte, 8), 0x1b, make([]byte, 8),
			x), done, onlyX},
		{"between padding", concat(make([]byte, 333), x, make([]byte, 777)), done, onlyX},
		{"before CRYPTO", concat(x, 6, uint64(0), uint64(1), "c"), stopped, onlyX},
		{"before CONNECTION_CLOSE", concat(x, 0x1d, uint64(0), uint64(0)), stopped, onlyX},
		{"before an unknown frame", concat(x, uint64(0xae), uint64(0)), stopped, onlyX},
		{"nine streams", slices.Repeat(x, 9), stopped, slices.Repeat(onlyX, 8)},
		{"length beyond the packet", concat(0x0e, uint64(3), uint64(9), uint64(2), "x"), malformed, nil},
		{"huge length", concat(0x0e, uint64(3), uint64(9), uint64(1<<62-1), "x"), malformed, nil},
		{"varint cut off", concat(0x0c, uint64(3), 0xc0), malformed, nil},
		{"ACK with too many ranges", concat(2, uint64(1<<20), uint64(3), uint64(257), uint64(5)), stopped, nil},
		{"ACK cut off", concat(2, uint64(1000), uint64(3), uint64(200), uint64(5)), malformed, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result, frames := k.Frames(t, tt.payload)
			require.Equal(t, tt.result, result)
			require.Len(t, frames, len(tt.frames))
			for i, f := range frames {
				want := tt.frames[i]
				require.Equal(t, want, frame{StreamId: f.StreamId, Offset: f.Offset, Len: f.Len, Type: f.Type,
					Fin: f.Fin})
			}
		})
	}
}

// TestWalkAnything runs the walk and the parsers over noise: they must end, and what they report must lie within the
// packet.
func TestWalkAnything(t *testing.T) {
	k := bpftest.NewWalk(t)
	seed := rand.New(rand.NewPCG(1, 2))
	types := []byte{0, 1, 2, 3, 4, 8, 9, 0x0a, 0x0c, 0x0e, 0x0f, 0x10, 0x18, 0x1a, 0x1f, 0x24, 0x30, 0x31, 0x40, 0xaf}
	for range 5000 {
		payload := make([]byte, 1+seed.IntN(1500))
		for i := range payload {
			if payload[i] = byte(seed.Uint32()); seed.IntN(3) == 0 {
				payload[i] = types[seed.IntN(len(types))]
			}
		}
		_, frames := k.Frames(t, payload)
		for i, f := range frames {
			require.GreaterOrEqual(t, f.At, uint32(bpftest.InPayload))
			require.LessOrEqual(t, f.At+f.Len, uint32(bpftest.InPayload+len(payload)))
			require.LessOrEqual(t, k.SubgroupHeader(t, payload, i).Len, f.Len)
			require.LessOrEqual(t, k.ObjectDatagram(t, payload, i, seed.IntN(2) == 0).Len, f.Len)
		}
	}
}
