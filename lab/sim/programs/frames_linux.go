package programs

import (
	"encoding/binary"
	"math/bits"
)

// reader reads integers and moves on. It checks nothing: beyond the end it reads zeros, and callers compare the
// position with the end once.
type reader struct {
	b   []byte
	pos int
}

func (r *reader) byte() byte {
	r.pos++
	return r.at(r.pos - 1)
}

func (r *reader) at(pos int) byte {
	if pos < len(r.b) {
		return r.b[pos]
	}
	return 0
}

// word returns eight bytes from a position on.
func (r *reader) word(pos int) uint64 {
	var w [8]byte
	copy(w[:], r.b[min(pos, len(r.b)):])
	return binary.BigEndian.Uint64(w[:])
}

// varint reads an integer of QUIC (RFC 9000 §16).
func (r *reader) varint() uint64 {
	v := r.word(r.pos)
	n := 1 << (v >> 62)
	r.pos += n
	return v << 2 >> 2 >> (64 - 8*n)
}

// vi64 reads an integer of MoQT (draft-18 §1.4.1).
func (r *reader) vi64() uint64 {
	more := bits.LeadingZeros8(^r.at(r.pos)) // bytes after the first
	pos := r.pos
	r.pos += more + 1
	if more == 8 {
		return r.word(pos + 1)
	}
	return r.word(pos) << (more + 1) >> (more + 1) >> (56 - 8*more)
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
var varintFrames = [64]int{
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
	w.b = payload
	for w.pos < len(payload) && result == walkDone {
		result = w.next()
	}
	if result == walkDone && w.pos != len(payload) {
		result = walkMalformed
	}
	return w, result
}

// next takes one frame.
func (w *walk) next() walkResult {
	t := w.byte()
	switch {
	case t == framePadding:
		return walkDone
	case t&^1 == frameAck:
		return w.ack(t)
	case t&^7 == frameStream, t&^1 == frameDatagram:
		return w.media(t)
	case t == frameNewConnectionID:
		w.varint()
		w.varint()
		w.pos += int(w.byte()) + 16
		return walkDone
	case t&^1 == framePathChallenge:
		w.pos += 8
		return walkDone
	}
	return w.varints(t)
}

func (w *walk) ack(t byte) walkResult {
	w.varint() // Largest Acknowledged
	w.varint() // ACK Delay
	ranges := w.varint()
	w.varint() // First ACK Range
	if ranges > maxAckRanges {
		return walkStopped
	}
	for range 2*int(ranges) + 3*int(t&1) {
		w.varint()
	}
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
	n := uint64(len(w.b) - w.pos)
	if f.datagram && t&datagramLen != 0 || !f.datagram && t&streamLen != 0 {
		n = w.varint()
	}
	if w.pos > len(w.b) || n > uint64(len(w.b)-w.pos) {
		return walkMalformed
	}
	f.data = w.b[w.pos : w.pos+int(n)]
	w.frames = append(w.frames, f)
	w.pos += int(n)
	return walkDone
}

func (w *walk) varints(t byte) walkResult {
	n := 0
	if t < 0x40 {
		n = varintFrames[t]
	} else if t == 0x40 && w.at(w.pos) == frameAckFrequency {
		n, w.pos = 5, w.pos+1
	}
	if n == 0 {
		return walkStopped
	}
	for range n - 1 {
		w.varint()
	}
	return walkDone
}

// Bits of the type of SUBGROUP_HEADER.
const (
	subgroupIDMode          = 0x06
	subgroupIDFirst         = 0x02 // it is the first object's id
	subgroupIDPresent       = 0x04
	subgroupIDReserved      = 0x06
	defaultPrioritySubgroup = 0x20
	subgroupFlags           = 0x59 // the same on all hops
	unidirectional          = 2    // of a stream id (RFC 9000 §2.1)
)

// subgroupHeader is SUBGROUP_HEADER at the beginning of a stream, behind the stream header of WebTransport.
type subgroupHeader struct {
	alias, group, subgroup uint64
	kind, priority         byte
	len                    int // of all that each hop writes anew; 0: there is none
}

func parseSubgroupHeader(f *frame) (h subgroupHeader) {
	if f.offset > 0 || f.stream&unidirectional == 0 {
		return h
	}
	r := reader{b: f.data}
	if r.at(0) == 0x40 && r.at(1) == 0x54 {
		r.pos = 2
		r.varint()
	}
	kind := r.byte()
	if kind&0x90 != 0x10 || kind&subgroupIDMode == subgroupIDReserved {
		return h
	}
	parsed := subgroupHeader{kind: kind, alias: r.vi64(), group: r.vi64()}
	if kind&subgroupIDMode == subgroupIDPresent {
		parsed.subgroup = r.vi64()
	}
	if kind&defaultPrioritySubgroup == 0 {
		parsed.priority = r.byte()
	}
	parsed.len = r.pos
	if kind&subgroupIDMode == subgroupIDFirst {
		parsed.subgroup = r.vi64()
	}
	if r.pos > len(f.data) {
		return h
	}
	return parsed
}
