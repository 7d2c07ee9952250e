// Package rtpsplit cuts RTP packets that are too large for a path into smaller ones, which carry the same. SRTP makes
// packets longer, and many publishers' packets fill a datagram without it.
//
// A packet is cut as its payload format allows: NAL units and OBUs become fragments, frames of sound get packets and
// timestamps of their own.
package rtpsplit

import (
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp"
)

// minRoom is the least room for a payload. It bounds how many packets become of one.
const minRoom = 128

// piece is the payload of a packet.
type piece struct {
	payload []byte
	later   uint32 // than the timestamp of the packet that was cut
}

// Split returns packets of at most limit bytes that carry the same as a packet, or nil if its format or its payload
// does not allow that. Their sequence numbers begin with the packet's. They may share the payload, which nobody may
// change.
func Split(f format.Format, p *rtp.Packet, limit int) (list []*rtp.Packet) {
	defer func() {
		if recover() != nil { // the payload comes from strangers, and this package shall not trust it
			list = nil
		}
	}()
	header := p.Header
	header.Padding, header.PaddingSize = false, 0
	room := limit - header.MarshalSize()
	if room < minRoom {
		return nil
	}
	pieces, sound := []piece{{payload: p.Payload}}, false
	if len(p.Payload) > room {
		pieces, sound = cut(f, p.Payload, room)
	}
	for i, one := range pieces {
		out := &rtp.Packet{Header: header, Payload: one.payload}
		out.SequenceNumber += uint16(i)
		out.Timestamp += one.later
		out.Marker = header.Marker && (sound || i == len(pieces)-1) // of video, it tells the end of a picture
		list = append(list, out)
	}
	return list
}

// cut returns the pieces of a payload, and whether each has frames that are complete.
func cut(f format.Format, b []byte, room int) (pieces []piece, sound bool) {
	switch f := f.(type) {
	case *format.H264:
		if f.PacketizationMode != 1 {
			return nil, false // there are no fragments (RFC 6184 §6.2), or units have numbers (§6.4)
		}
		return h264.split(b, room), false
	case *format.H265:
		if f.MaxDONDiff != 0 {
			return nil, false // units have numbers
		}
		return h265.split(b, room), false
	case *format.AV1:
		return splitAV1(b, room), false
	case *format.VP8:
		return splitVP8(b, room), false
	case *format.VP9:
		return splitVP9(b, room), false
	case *format.MJPEG:
		return splitJPEG(b, room), false
	case *format.MPEG4Audio:
		return splitAAC(f, b, room), true
	case *format.G711:
		return splitSamples(b, room, f.ChannelCount), true
	case *format.LPCM:
		return splitSamples(b, room, f.ChannelCount*f.BitDepth/8), true
	}
	return nil, false
}
