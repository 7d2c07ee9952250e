package packet

import "errors"

// maxStreams is the largest limit of streams (RFC 9000 §19.11).
const maxStreams = 1 << 60

var errLimit = errors.New("invalid frame in a packet with limits")

// Limit is a MAX_DATA, MAX_STREAM_DATA or MAX_STREAMS frame for unidirectional streams (RFC 9000 §19.9 to §19.11).
type Limit struct {
	Frame byte
	ID    int64 // of the stream of MAX_STREAM_DATA
	Max   int64
}

// ParseLimit reads the frame that b begins with, and returns what follows.
func ParseLimit(b []byte) (l Limit, rest []byte, err error) {
	if len(b) == 0 {
		return Limit{}, nil, errLimit
	}
	f := fields{b: b[1:]}
	l.Frame = b[0]
	switch l.Frame {
	case FrameMaxStreamData:
		l.ID = int64(f.next())
	case FrameMaxData, FrameMaxStreamsUni:
	default:
		return Limit{}, nil, errLimit
	}
	l.Max = int64(f.next())
	if f.short || l.Frame == FrameMaxStreamsUni && l.Max > maxStreams {
		return Limit{}, nil, errLimit
	}
	return l, f.b, nil
}
