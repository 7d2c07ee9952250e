package bpftest

import (
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/quic-go/quic-go/quicvarint"

	"sluice/moqt"
)

// Walk is the loaded programs that walk frames and parse media headers.
type Walk struct{ WalkObjects }

// NewWalk loads them.
func NewWalk(t testing.TB) *Walk {
	t.Helper()
	k := new(Walk)
	load(t, LoadWalk, &k.WalkObjects)
	return k
}

func (k *Walk) run(t testing.TB, p *ebpf.Program, payload []byte, frame, mark uint32) (uint32, *WalkScratch) {
	t.Helper()
	s := new(WalkScratch)
	rand.NewChaCha8([32]byte{1}).Read(s.Buf[:]) // the bytes behind the payload must not matter
	copy(s.Buf[InPayload:], payload)
	s.Len, s.Frame = uint32(len(payload)), frame
	putPerCPU(t, k.Scratches, s)
	got, cpu := runOnce(t, p, mark)
	return got, getPerCPU[WalkScratch](t, k.Scratches, cpu)
}

// Frames returns the media frames in a packet's payload.
func (k *Walk) Frames(t testing.TB, payload []byte) (WalkWalkResult, []WalkFrame) {
	t.Helper()
	got, s := k.run(t, k.TestWalk, payload, 0, 0)
	return WalkWalkResult(got), s.Frames[:s.FrameCount]
}

// SubgroupHeader returns the header at the beginning of the data of a packet's frame.
func (k *Walk) SubgroupHeader(t testing.TB, payload []byte, frame int) WalkMediaHeader {
	t.Helper()
	_, s := k.run(t, k.TestSubgroupHeader, payload, uint32(frame), 0)
	return s.Header
}

// ObjectDatagram returns the header of the datagram in a packet's frame, which may belong to a WebTransport session.
func (k *Walk) ObjectDatagram(t testing.TB, payload []byte, frame int, webtransport bool) WalkMediaHeader {
	t.Helper()
	var mark uint32
	if webtransport {
		mark = 1
	}
	_, s := k.run(t, k.TestObjectDatagram, payload, uint32(frame), mark)
	return s.Header
}

// VI64 returns an integer of MoQT in its shortest encoding (draft-18 §1.4.1).
func VI64(v uint64) []byte { return moqt.AppendVarint(nil, v) }

// Concat joins bytes, single values (int) and QUIC's integers (uint64) into one payload.
func Concat(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case []byte:
			b = append(b, p...)
		case string:
			b = append(b, p...)
		case uint64:
			b = quicvarint.Append(b, p)
		default:
			panic("bpftest: unknown type")
		}
	}
	return b
}

// Stream returns a STREAM frame with length and offset.
func Stream(id, offset uint64, fin int, data []byte) []byte {
	return Concat(0x0e|fin, id, offset, uint64(len(data)), data)
}
