package rtsp

import (
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp/codecs"

	"sluice/internal/rtpframe"
)

// keyFunc reports whether the payload of an RTP packet has a part of a frame with which decoding can start. It looks at
// headers only, and takes any bytes.
type keyFunc func(payload []byte) bool

// keyFuncOf returns the keyFunc of a video format, or nil if the format is not known.
func keyFuncOf(f format.Format) keyFunc {
	if c := videoCodec(f); c != rtpframe.Unknown {
		return func(payload []byte) bool { return rtpframe.KindOf(c, payload, new(uint32)) == rtpframe.Key }
	}
	switch f.(type) {
	case *format.VP8:
		return keyVP8
	case *format.VP9:
		return keyVP9
	}
	return nil
}

// keyVP8 looks for the start of a key frame (RFC 7741 §4.2, §4.3).
func keyVP8(b []byte) bool {
	var descriptor codecs.VP8Packet
	frame, err := descriptor.Unmarshal(b)
	return err == nil && len(frame) > 0 && descriptor.S == 1 && descriptor.PID == 0 && frame[0]&1 == 0
}

// keyVP9 looks for the start of a key frame in the lowest spatial layer (RFC 9628 §4.2): B set and P not. Some senders
// never set P, so the frame's header has to say it, too (VP9 bitstream specification §6.2).
func keyVP9(b []byte) bool {
	var descriptor codecs.VP9Packet
	frame, err := descriptor.Unmarshal(b)
	if err != nil || len(frame) == 0 || !descriptor.B || descriptor.P || descriptor.L && descriptor.SID != 0 {
		return false
	}
	const marker, profile3, shown, other = 0x80, 0x30, 0x08, 0x04
	header := frame[0]
	if header&profile3 == profile3 {
		header <<= 1 // a reserved bit
	}
	return frame[0]&0xc0 == marker && header&(shown|other) == 0
}
