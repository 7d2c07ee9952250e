package programs

import (
	"bytes"

	"github.com/quic-go/quic-go/quicvarint"

	"sluice/moqt"
)

// reader reads what follows. Once that has ended it reads zeros, and callers look at short once.
type reader struct {
	rest  []byte
	short bool // there was too little
}

// skip skips bytes.
func (r *reader) skip(n int) {
	r.short = r.short || n > len(r.rest)
	r.rest = r.rest[min(n, len(r.rest)):]
}

func (r *reader) byte() (b byte) {
	if len(r.rest) > 0 {
		b = r.rest[0]
	}
	r.skip(1)
	return b
}

// varint reads an integer of QUIC (RFC 9000 §16).
func (r *reader) varint() uint64 { return r.integer(quicvarint.Parse(r.rest)) }

// vi64 reads an integer of MoQT (draft-18 §1.4.1).
func (r *reader) vi64() uint64 { return r.integer(moqt.ParseVarint(r.rest)) }

func (r *reader) integer(v uint64, n int, err error) uint64 {
	if err != nil {
		n = len(r.rest) + 1
	}
	r.skip(n)
	return v
}

// Types of frames (RFC 9000 §19).
const (
	framePadding         = 0x00
	frameAck             = 0x02 // and 0x03 with ECN counts
	frameStream          = 0x08 // to 0x0f
	frameNewConnectionID = 0x18
	framePathChallenge   = 0x1a // and 0x1b PATH_RESPONSE
	frameDatagram        = 0x30 // and 0x31 with a length
	frameAckFrequency    = 0xaf // a varint of two bytes

	streamFIN, streamLen, streamOff = 1, 2, 4
	datagramLen                     = 1

	maxAckRanges = 256
	maxFrames    = 8
)

// varintFrames are the frames that consist of varints only, by type: the number of varints plus one.
var varintFrames = [256]int{
	0x01: 1, 0x04: 4, 0x05: 3, 0x10: 2, 0x11: 3, 0x12: 2, 0x13: 2, 0x14: 2, 0x15: 3, 0x16: 2, 0x17: 2, 0x19: 2,
	0x1e: 1, 0x1f: 1, 0x24: 5,
}

type walkResult int

const (
	walkDone      walkResult = iota // every frame is understood
	walkStopped                     // a frame of another kind, or one more than fits
	walkMalformed                   // a frame reaches beyond the packet
)

// frame is a STREAM or DATAGRAM frame.
type frame struct {
	stream, offset uint64
	data           []byte
	fin, datagram  bool
}

func (f *frame) end() uint64 { return f.offset + uint64(len(f.data)) }

// walk is what a packet consists of.
type walk struct {
	reader
	frames []frame
}

// walkFrames walks the frames of a plaintext.
func walkFrames(payload []byte) (w walk, result walkResult) {
	w.rest = payload
	for len(w.rest) > 0 && result == walkDone {
		result = w.next()
	}
	if result == walkDone && w.short {
		result = walkMalformed
	}
	return w, result
}

// next takes one frame.
func (w *walk) next() walkResult {
	t := w.byte()
	switch {
	case t == framePadding:
	case t&^1 == frameAck:
		return w.ack(t)
	case t&^7 == frameStream, t&^1 == frameDatagram:
		return w.media(t)
	case t == frameNewConnectionID:
		w.varints(2)
		w.skip(int(w.byte()) + 16)
	case t&^1 == framePathChallenge:
		w.skip(8)
	case t == 0x40 && bytes.HasPrefix(w.rest, []byte{frameAckFrequency}):
		w.skip(1)
		w.varints(4)
	case varintFrames[t] == 0:
		return walkStopped
	default:
		w.varints(varintFrames[t] - 1)
	}
	return walkDone
}

func (w *walk) ack(t byte) walkResult {
	w.varints(2) // Largest Acknowledged, ACK Delay
	ranges := w.varint()
	if ranges > maxAckRanges {
		return walkStopped
	}
	w.varints(1 + 2*int(ranges) + 3*int(t&1)) // from First ACK Range on
	return walkDone
}

func (w *walk) media(t byte) walkResult {
	if len(w.frames) == maxFrames {
		return walkStopped
	}
	f := frame{datagram: t >= frameDatagram}
	if !f.datagram {
		f.stream, f.fin = w.varint(), t&streamFIN != 0
		if t&streamOff != 0 {
			f.offset = w.varint()
		}
	}
	n := uint64(len(w.rest))
	if f.datagram && t&datagramLen != 0 || !f.datagram && t&streamLen != 0 {
		n = w.varint()
	}
	if w.short || n > uint64(len(w.rest)) {
		return walkMalformed
	}
	f.data = w.rest[:n]
	w.frames = append(w.frames, f)
	w.skip(int(n))
	return walkDone
}

// varints skips integers.
func (w *walk) varints(n int) {
	for range n {
		w.varint()
	}
}

const (
	unidirectional = 2 // of a stream id (RFC 9000 §2.1)
	draft          = moqt.Draft18
	layout         = moqt.DataLayout1
)

// subgroupHeader is SUBGROUP_HEADER at the beginning of a stream, behind the stream header of WebTransport.
type subgroupHeader struct {
	moqt.SubgroupHeader     // with the id of the subgroup in all modes
	len                 int // of all that each hop writes anew; 0: there is none
}

func parseSubgroupHeader(f *frame) (h subgroupHeader) {
	r := reader{rest: f.data}
	if bytes.HasPrefix(r.rest, []byte{0x40, 0x54}) {
		r.skip(2)
		r.varint()
	}
	long := len(r.rest) > 0 && r.rest[0] >= 0x80 // a type of several bytes
	parsed, n, err := moqt.ParseSubgroupHeader(draft, r.rest)
	if f.offset > 0 || f.stream&unidirectional == 0 || long || err != nil {
		return h
	}
	r.skip(n)
	n = len(f.data) - len(r.rest)
	if parsed.SubgroupIDMode == moqt.SubgroupIDFirstObject {
		parsed.SubgroupID = r.vi64()
	}
	if r.short {
		return h
	}
	return subgroupHeader{parsed, n}
}
