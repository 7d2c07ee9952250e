package rtsp

import (
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp"
)

// report has the figures of sender reports to a player about a format (RFC 3550 §6.4.1): how much it was sent, by user
// space and by the kernel, and which timestamp belongs to which time. The library's own reports would not count the
// kernel's packets.
type report struct {
	ssrc            uint32
	format          format.Format
	packets, octets uint64    // sent by user space
	last            time.Time // when the last report was sent
}

// reportInterval is as long as the library's.
const reportInterval = 10 * time.Second

// addPieces counts the pieces of a packet, which counts as one elsewhere.
func (r *report) addPieces(whole *rtp.Packet, pieces []*rtp.Packet) {
	if r == nil {
		return
	}
	r.packets += uint64(len(pieces) - 1)
	r.octets -= uint64(len(whole.Payload))
	for _, one := range pieces {
		r.octets += uint64(len(one.Payload))
	}
}
