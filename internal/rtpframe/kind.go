package rtpframe

import (
	"encoding/binary"
)

// Codec says how to read a payload.
type Codec uint32

// Codecs. All audio is one: its frames do not depend on each other.
const (
	Unknown Codec = iota
	Audio
	H264 // RFC 6184
	H265 // RFC 7798
	AV1  // RTP Payload Format For AV1
)

// Kind is the kind of a packet's frame, by the frames that depend on it.
type Kind uint32

// Kinds, the weaker ones first: of several that a packet has, the last one counts.
const (
	Part       Kind = iota // goes with a frame, such as a delimiter: the packet does not tell which kind of frame
	Other                  // the codec is not known
	Sound                  // nothing depends on it
	Disposable             // the same
	Delta                  // others depend on it, and it on others
	Key                    // decoding can begin with it
)

// subscriberPriority is the default priority of MoQ subscribers.
const subscriberPriority = 128

// levels are by default the priorities of a MoQ broadcast's subgroups (pub.DefaultPriorities). An unknown kind is as
// important as sound.
var levels = [...]uint32{Part: 128, Other: 64, Sound: 64, Disposable: 160, Delta: 128, Key: 96}

// Level returns the level of a kind, as package claim has it.
func (k Kind) Level() uint32 { return subscriberPriority<<8 | levels[k] }

// lowest is the highest level of all.
const lowest = 1<<16 - 1

// bounds are the highest levels of the classes 0 to 3 of a bucket: sound goes always.
var bounds = uint64(Sound.Level()) | uint64(Key.Level())<<16 | uint64(Delta.Level())<<32 |
	uint64(Disposable.Level())<<48

// Limits of reading a payload. The kernel has the same.
const (
	maxUnits  = 8 // that are aggregated in a packet
	maxLength = 2 // bytes of the length of an OBU, which leaves room for 16,383
)

// KindOf returns the kind of the frame that a payload has a part of. It looks at headers only, and takes any bytes.
// temporal is the highest temporal id of the media so far.
func KindOf(c Codec, payload []byte, temporal *uint32) Kind {
	switch c {
	case Audio:
		return Sound
	case H264:
		return h264(payload)
	case H265:
		return h265(payload, temporal)
	case AV1:
		return av1(payload)
	}
	return Other
}

// h264 reads RFC 6184 §5.4.
func h264(b []byte) Kind {
	const stapA, fuA = 24, 28
	if len(b) == 0 {
		return Part
	}
	switch typ := b[0] & 31; {
	case typ == stapA:
		return strongest(b[1:], 1, func(unit []byte) Kind { return h264Unit(unit[0]) })
	case typ == fuA && len(b) > 1:
		return h264Unit(b[0]&0xe0 | b[1]&31)
	case typ > stapA:
		return Delta // packets of the interleaved mode
	default:
		return h264Unit(b[0])
	}
}

// h264Unit reads the header of a NAL unit: its type and nal_ref_idc (ITU-T H.264 §7.4.1).
func h264Unit(header byte) Kind {
	const idr, sps = 5, 7
	switch typ := header & 31; {
	case typ == idr || typ == sps:
		return Key
	case typ < 1 || typ > idr:
		return Part
	case header>>5&3 == 0:
		return Disposable
	}
	return Delta
}

// h265 reads RFC 7798 §4.4.
func h265(b []byte, temporal *uint32) Kind {
	const aggregation, fragment = 48, 49
	if len(b) < 2 {
		return Part
	}
	switch typ := b[0] >> 1 & 63; {
	case typ == aggregation:
		return strongest(b[2:], 2, func(unit []byte) Kind { return h265Unit(unit[0]>>1&63, unit[1], temporal) })
	case typ == fragment && len(b) > 2:
		return h265Unit(b[2]&63, b[1], temporal)
	case typ >= aggregation:
		return Delta
	default:
		return h265Unit(typ, b[1], temporal)
	}
}

// h265Unit reads the type of a NAL unit, and its temporal id in the second byte of its header: sub-layer non-reference
// pictures of the highest sub-layer are disposable (ITU-T H.265 §7.4.2.2).
func h265Unit(typ, second byte, temporal *uint32) Kind {
	const lastNonReference, firstKey, lastKey, lastSlice, vps, sps = 14, 16, 21, 31, 32, 33
	id := uint32(second & 7)
	switch {
	case typ >= firstKey && typ <= lastKey || typ == vps || typ == sps:
		return Key
	case typ > lastSlice:
		return Part
	}
	*temporal = max(*temporal, id)
	if typ > lastNonReference || typ%2 == 1 || id < *temporal {
		return Delta
	}
	return Disposable
}

// strongest returns the last kind of the aggregated NAL units. Each has a header.
func strongest(b []byte, header int, kind func(unit []byte) Kind) (k Kind) {
	for range maxUnits {
		if len(b) < 2+header {
			break
		}
		size := int(binary.BigEndian.Uint16(b))
		if size < header || size > len(b)-2 {
			break
		}
		k = max(k, kind(b[2:]))
		b = b[2+size:]
	}
	return k
}

// av1 looks at the bit N, of the first packet of a coded video sequence (RTP Payload Format For AV1 §4.4), and then at
// the OBUs. Senders that do not set the bit have a sequence header in that packet, after a temporal delimiter at most.
func av1(b []byte) Kind {
	const fragment, count, sequence = 0x80, 0x30, 0x08
	switch {
	case len(b) < 2:
		return Part
	case b[0]&sequence != 0:
		return Key
	case b[0]&fragment != 0:
		return Part
	}
	elements := int(b[0] & count >> 4)
	b = b[1:]
	for i := 1; i <= maxUnits && len(b) > 0; i++ {
		size := len(b)
		if i != elements { // all elements but a last one that is counted have a length
			var used int
			if size, used = obuLength(b); used == 0 || size > len(b)-used {
				break
			}
			b = b[used:]
		}
		if k := obu(b[:size]); k != Part {
			return k
		}
		if b = b[size:]; i == elements {
			break
		}
	}
	return Part
}

// obuLength reads a length (AV1 specification §4.10.5). used is 0 if it is too long.
func obuLength(b []byte) (n, used int) {
	for i := range min(len(b), maxLength) {
		n |= int(b[i]&0x7f) << (7 * i)
		if b[i]&0x80 == 0 {
			return n, i + 1
		}
	}
	return 0, 0
}

// obu reads the header of an OBU (AV1 specification §5.3). OBUs of a temporal layer above the base layer are
// disposable: the base layer does not depend on them.
func obu(b []byte) Kind {
	const sequence, firstFrame, metadata, lastFrame, extension = 1, 3, 5, 7, 0x04
	if len(b) == 0 {
		return Part
	}
	switch typ := b[0] >> 3 & 15; {
	case typ == sequence:
		return Key
	case typ < firstFrame || typ > lastFrame || typ == metadata:
		return Part
	case b[0]&extension != 0 && len(b) > 1 && b[1]>>5 > 0:
		return Disposable
	}
	return Delta
}
