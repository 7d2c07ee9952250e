package replay

import (
	"errors"

	"github.com/quic-go/quic-go/quicvarint"

	"sluice/internal/packet"
)

// content is the content of a packet that matters to a subscriber. A packet of the media sender has one frame.
type content struct {
	stream   bool // a part of a stream
	id       int64
	from, to int64
	data     []byte
}

var errFrame = errors.New("a frame is cut off")

// parseContent parses a payload.
func parseContent(b []byte) (c content, err error) {
	next := func() (v uint64) {
		var n int
		if err == nil {
			if v, n, err = quicvarint.Parse(b); err == nil {
				b = b[n:]
			}
		}
		return v
	}
	kind := next()
	if kind == packet.FrameImmediateAck {
		kind = next()
	}
	if err != nil || kind&^7 != packet.FrameStream {
		return c, err
	}
	c.stream, c.id = true, int64(next())
	if kind&packet.FrameStreamOffset != 0 {
		c.from = int64(next())
	}
	if err != nil {
		return c, errFrame
	}
	c.to, c.data = c.from+int64(len(b)), b
	return c, nil
}
