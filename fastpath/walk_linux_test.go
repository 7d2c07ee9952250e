package fastpath

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quic-go/quic-go/quicvarint"
	"github.com/stretchr/testify/require"
)

type walkKernel struct{ walkObjects }

func newWalkKernel(t testing.TB) *walkKernel {
	t.Helper()
	k := new(walkKernel)
	requireKernel(t, loadWalkObjects(&k.walkObjects, nil))
	t.Cleanup(func() { k.Close() })
	return k
}

// walk returns what the kernel makes of a packet's payload.
func (k *walkKernel) walk(t testing.TB, payload []byte, webtransport bool) (walkWalkResult, []walkFrame) {
	t.Helper()
	s := new(walkScratch)
	rand.NewChaCha8([32]byte{1}).Read(s.Buf[:]) // what lies behind the payload must not matter
	copy(s.Buf[payloadAt:], payload)
	s.Len = uint32(len(payload))
	putPerCPU(t, k.Scratches, s)
	var flag uint32
	if webtransport {
		flag = 1
	}
	got, cpu := runOnce(t, k.TestWalk, flag)
	s = getPerCPU[walkScratch](t, k.Scratches, cpu)
	return walkWalkResult(got), s.Frames[:s.FrameCount]
}

// vi64 is an integer of MoQT in its shortest encoding (draft-18 §1.4.1).
func vi64(v uint64) []byte {
	for n := 1; n < 9; n++ {
		if v < 1<<(7*n) {
			b := binary.BigEndian.AppendUint64(nil, v)[8-n:]
			b[0] |= ^byte(0xff >> (n - 1))
			return b
		}
	}
	return binary.BigEndian.AppendUint64([]byte{0xff}, v)
}

// concat joins bytes, single values and varints into one payload.
func concat(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case []byte:
			b = append(b, p...)
		case string:
			b = append(b, p...)
		case uint64: // QUIC varint
			b = quicvarint.Append(b, p)
		default:
			panic("concat: unknown type")
		}
	}
	return b
}

// stream is a STREAM frame with length and offset.
func stream(id, offset uint64, fin int, data []byte) []byte {
	return concat(0x0e|fin, id, offset, uint64(len(data)), data)
}

func TestWalkFrames(t *testing.T) {
	k := newWalkKernel(t)
	media := func(id, offset uint64, data string) walkFrame {
		return walkFrame{StreamId: id, Offset: offset, Len: uint32(len(data)), Type: 0x0e}
	}
	ack := concat(2, uint64(1000), uint64(3), uint64(2), uint64(5), uint64(1), uint64(2), uint64(70000), uint64(9))
	tests := []struct {
		name    string
		payload []byte
		result  walkWalkResult
		frames  []walkFrame
	}{
		{"stream with length and offset", stream(3, 77, 0, []byte("media")), walkWalkResultWALK_DONE, []walkFrame{media(3, 77, "media")}},
		{"stream to the end of the packet", concat(0x0c, uint64(7), uint64(1<<40), "media"), walkWalkResultWALK_DONE,
			[]walkFrame{{StreamId: 7, Offset: 1 << 40, Len: 5, Type: 0x0c}}},
		{"stream with fin, empty", stream(3, 77, 1, nil), walkWalkResultWALK_DONE, []walkFrame{{StreamId: 3, Offset: 77, Type: 0x0f, Fin: 1}}},
		{"two streams", concat(stream(3, 77, 0, []byte("ab")), stream(1<<30, 5, 0, []byte("cde"))), walkWalkResultWALK_DONE,
			[]walkFrame{media(3, 77, "ab"), media(1<<30, 5, "cde")}},
		{"among every frame of varints", concat(1, ack, 4, uint64(3), uint64(1<<20), uint64(9), 5, uint64(3), uint64(9), 0x10, uint64(1<<40),
			0x11, uint64(3), uint64(99), 0x12, uint64(5), 0x13, uint64(5), 0x14, uint64(5), 0x15, uint64(3), uint64(5), 0x16, uint64(5),
			0x17, uint64(5), 0x19, uint64(5), 0x1e, stream(3, 9, 0, []byte("x"))), walkWalkResultWALK_DONE, []walkFrame{media(3, 9, "x")}},
		{"behind ACK with ECN counts", concat(3, uint64(1000), uint64(3), uint64(1), uint64(5), uint64(1), uint64(2), uint64(70000), uint64(9), uint64(0),
			stream(3, 9, 0, []byte("x"))), walkWalkResultWALK_DONE, []walkFrame{media(3, 9, "x")}},
		{"behind connection IDs and paths", concat(0x18, uint64(1), uint64(0), 8, make([]byte, 8+16), 0x1a, make([]byte, 8), 0x1b, make([]byte, 8),
			stream(3, 9, 0, []byte("x"))), walkWalkResultWALK_DONE, []walkFrame{media(3, 9, "x")}},
		{"between padding", concat(make([]byte, 333), stream(3, 9, 0, []byte("x")), make([]byte, 777)), walkWalkResultWALK_DONE, []walkFrame{media(3, 9, "x")}},
		{"before CRYPTO", concat(stream(3, 9, 0, []byte("x")), 6, uint64(0), uint64(1), "c"), walkWalkResultWALK_STOPPED, []walkFrame{media(3, 9, "x")}},
		{"before CONNECTION_CLOSE", concat(stream(3, 9, 0, []byte("x")), 0x1d, uint64(0), uint64(0)), walkWalkResultWALK_STOPPED, []walkFrame{media(3, 9, "x")}},
		{"before an unknown frame", concat(stream(3, 9, 0, []byte("x")), uint64(0xaf), uint64(0)), walkWalkResultWALK_STOPPED, []walkFrame{media(3, 9, "x")}},
		{"nine streams", slices.Repeat(stream(3, 9, 0, []byte("x")), 9), walkWalkResultWALK_STOPPED, slices.Repeat([]walkFrame{media(3, 9, "x")}, 8)},
		{"length beyond the packet", concat(0x0e, uint64(3), uint64(9), uint64(2), "x"), walkWalkResultWALK_MALFORMED, nil},
		{"huge length", concat(0x0e, uint64(3), uint64(9), uint64(1<<62-1), "x"), walkWalkResultWALK_MALFORMED, nil},
		{"varint cut off", concat(0x0c, uint64(3), 0xc0), walkWalkResultWALK_MALFORMED, nil},
		{"ACK with too many ranges", concat(2, uint64(1<<20), uint64(3), uint64(257), uint64(5)), walkWalkResultWALK_STOPPED, nil},
		{"ACK cut off", concat(2, uint64(1000), uint64(3), uint64(200), uint64(5)), walkWalkResultWALK_MALFORMED, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result, frames := k.walk(t, tt.payload, false)
			require.Equal(t, tt.result, result)
			require.Len(t, frames, len(tt.frames))
			for i, f := range frames {
				want := tt.frames[i]
				require.Equal(t, want, walkFrame{StreamId: f.StreamId, Offset: f.Offset, Len: f.Len, Type: f.Type, Fin: f.Fin})
			}
		})
	}
}

func TestSubgroupHeaders(t *testing.T) {
	k := newWalkKernel(t)
	for typ := range 0x80 {
		for _, wt := range []bool{false, true} {
			header := concat(typ, vi64(5_000_000), vi64(1<<50))
			want := walkFrame{Alias: 5_000_000, Group: 1 << 50, HeaderType: uint8(typ)}
			if typ&6 == 4 {
				header = append(header, vi64(1<<63)...)
				want.Subgroup = 1 << 63
			}
			if typ&0x20 == 0 {
				header = append(header, 17)
				want.Priority = 17
			}
			if wt {
				header = concat(0x40, 0x54, uint64(4000), header)
			}
			want.HeaderLen = uint32(len(header))
			if typ&6 == 2 {
				want.Subgroup = 'o' // the first object's id follows
			}
			valid := typ&0x10 != 0 && typ&6 != 6

			_, frames := k.walk(t, stream(3, 0, 0, append(header, "object"...)), false)
			require.Len(t, frames, 1)
			if !valid {
				require.Zero(t, frames[0].HeaderLen, "type %#x", typ)
				continue
			}
			got := frames[0]
			if typ&0x20 != 0 {
				got.Priority = 0
			}
			require.Equal(t, want, walkFrame{Alias: got.Alias, Group: got.Group, Subgroup: got.Subgroup, Priority: got.Priority,
				HeaderType: got.HeaderType, HeaderLen: got.HeaderLen}, "type %#x webtransport %v", typ, wt)

			_, frames = k.walk(t, stream(3, 0, 0, header), false)
			if typ&6 == 2 {
				require.Zero(t, frames[0].HeaderLen, "the header alone does not say which subgroup it is")
				continue
			}
			require.Equal(t, want.HeaderLen, frames[0].HeaderLen, "the header alone")
			for cut := range len(header) {
				_, frames := k.walk(t, stream(3, 0, 0, header[:cut]), false)
				require.Zero(t, frames[0].HeaderLen, "type %#x cut at %d", typ, cut)
			}
		}
	}
}

// TestControlMessageIsNoHeader shows a FETCH_OK of a publisher, which reads like a SUBGROUP_HEADER but for its stream.
func TestControlMessageIsNoHeader(t *testing.T) {
	k := newWalkKernel(t)
	fetchOK := []byte{0x18, 0, 8, 0, 0, 1, 0, 0x0e, 16, 0x22, 1}
	for id, isHeader := range map[uint64]bool{0: false, 1: false, 2: true, 3: true} {
		_, frames := k.walk(t, stream(id, 0, 0, fetchOK), false)
		require.Len(t, frames, 1)
		require.Equal(t, isHeader, frames[0].HeaderLen > 0, "stream %d", id)
	}
}

func TestObjectDatagrams(t *testing.T) {
	k := newWalkKernel(t)
	for typ := range 0x40 {
		for _, wt := range []bool{false, true} {
			start := concat(typ, vi64(77))
			if wt {
				start = append(quicvarint.Append(nil, 1000), start...)
			}
			rest := vi64(1 << 40)
			want := walkFrame{Alias: 77, Group: 1 << 40, HeaderType: uint8(typ), HeaderLen: uint32(len(start) + len(vi64(1<<40)))}
			if typ&4 == 0 {
				rest = append(rest, vi64(300)...)
				want.Object = 300
				want.HeaderLen += 2
			}
			if typ&8 == 0 {
				rest = append(rest, 9)
				want.Priority = 9
				want.HeaderLen++
			}
			if typ&1 != 0 {
				rest = append(rest, 2, 0, 1)
			}
			datagram := concat(start, rest, "payload")
			_, frames := k.walk(t, concat(0x31, uint64(len(datagram)), datagram), wt)
			require.Len(t, frames, 1)
			if typ&0x30 != 0 {
				require.Zero(t, frames[0].HeaderLen, "type %#x", typ)
				continue
			}
			got := frames[0]
			if typ&8 != 0 {
				got.Priority = 0
			}
			require.Equal(t, want, walkFrame{Alias: got.Alias, Group: got.Group, Object: got.Object, Priority: got.Priority,
				HeaderType: got.HeaderType, HeaderLen: got.HeaderLen}, "type %#x webtransport %v", typ, wt)
			for cut := range len(start) + len(rest) {
				_, frames := k.walk(t, concat(0x30, datagram[:cut]), wt)
				require.Zero(t, frames[0].HeaderLen, "type %#x cut at %d", typ, cut)
			}
		}
	}
}

// TestWalkAnything runs the walk over noise: it must end, and what it reports must lie within the packet.
func TestWalkAnything(t *testing.T) {
	k := newWalkKernel(t)
	seed := rand.New(rand.NewPCG(1, 2))
	types := []byte{0, 1, 2, 3, 4, 8, 9, 0x0a, 0x0c, 0x0e, 0x0f, 0x10, 0x18, 0x1a, 0x30, 0x31}
	for range 5000 {
		payload := make([]byte, 1+seed.IntN(1500))
		for i := range payload {
			if payload[i] = byte(seed.Uint32()); seed.IntN(3) == 0 {
				payload[i] = types[seed.IntN(len(types))]
			}
		}
		_, frames := k.walk(t, payload, seed.IntN(2) == 0)
		for _, f := range frames {
			require.GreaterOrEqual(t, f.At, uint32(payloadAt))
			require.LessOrEqual(t, f.At+f.Len, uint32(payloadAt+len(payload)))
			require.LessOrEqual(t, f.HeaderLen, f.Len)
		}
	}
}

func BenchmarkWalk(b *testing.B) {
	k := newWalkKernel(b)
	header := concat(0x34, vi64(1), vi64(100), vi64(0))
	for name, payload := range map[string][]byte{
		"stream":       stream(3, 5000, 0, make([]byte, 1200)),
		"header":       stream(3, 0, 0, append(header, make([]byte, 1200)...)),
		"ack+stream":   concat(2, uint64(1000), uint64(3), uint64(2), uint64(5), uint64(1), uint64(2), uint64(7), uint64(9), stream(3, 5000, 0, make([]byte, 1200))),
		"padding 1200": make([]byte, 1200),
	} {
		b.Run(name, func(b *testing.B) {
			k.walk(b, payload, false)
			benchmark(b, k.TestWalk)
		})
	}
}
