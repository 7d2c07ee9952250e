package rtsp

import (
	"errors"
	"math/rand/v2"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/headers"
	"github.com/pion/rtp"

	"sluice/rtsp/rtpsplit"
)

// Clients of rtsps:// may use SRTP (RFC 3711), whose keys travel on the TLS connection as MIKEY (RFC 4567, RFC 3830).
// The library keeps the keys, encrypts and decrypts: it has a key for each media of each player, and one for each media
// of a publisher. User space sends and takes all these packets; see plainUDP.

// carrierSRTP is the carrier of RTP by UDP, encrypted.
const carrierSRTP = "srtp"

// bySRTP reports whether a session uses SRTP. It calls no method that takes the session's lock: the library calls
// OnDecodeError while it holds the lock of its UDP listener, which a session that ends takes with its own lock held.
func bySRTP(s *gortsplib.ServerSession) bool {
	return s.UserData() != nil && guestOf(s).Carrier() == carrierSRTP
}

// carrierOf returns the name of a transport that a client has chosen.
func carrierOf(t *gortsplib.SessionTransport) string {
	switch {
	case t.Protocol == gortsplib.ProtocolTCP:
		return "tcp"
	case t.Profile == headers.TransportProfileSAVP:
		return carrierSRTP
	}
	return "udp"
}

// errKeys is why the library refuses SETUP. Its own error may have the keys.
var errKeys = errors.New("the KeyMgmt header of SETUP must have one MIKEY message, not older than an hour, with one " +
	"key for AES-128 in counter mode and HMAC-SHA1, all parts encrypted")

// transports says which ones the endpoint serves.
func (e *endpoint) transports() string {
	switch {
	case e.lib.TLSConfig != nil:
		return "RTP by UDP must be RTP/SAVP on rtsps, or use the TLS connection"
	case e.tls != nil:
		return "media must use the TLS connection, with RTP/AVP/TCP"
	case e.lib.UDPRTPAddress == "":
		return "media must use the TCP connection, with RTP/AVP/TCP"
	}
	return "the transport must be RTP/AVP, unicast: SRTP needs rtsps"
}

// srtpOverhead is how much longer SRTP makes a packet: by the authentication tag of the library's only profile.
const srtpOverhead = 10

// numbering gives sequence numbers to the packets of an SSRC by SRTP. The key stream depends on the number and on how
// often the numbers have begun again, which both ends find out by steps of less than half of all numbers (RFC 3711
// §3.3.1): two packets must not have the same, or a listener learns the difference of their payloads. So the numbers
// go forward only, in small steps, whatever the publisher's do.
type numbering struct {
	begun bool
	again bool   // PLAY has come since the latest packet
	from  uint16 // the publisher's number of the latest packet
	last  uint16 // the number it was sent with, or its last piece
}

// next returns the number of a packet that is sent in pieces, which have the following ones. It reports whether the gap
// before it does not tell how many packets are missing.
func (n *numbering) next(from uint16, pieces int) (first uint16, unknown bool) {
	switch step := int16(from - n.from); {
	case !n.begun: // in the lower half: a receiver that lacks the first packets counts from 0, too
		n.begun, n.last = true, uint16(rand.Uint32())>>1
	case !n.again && step > 0 && step <= maxGap:
		n.last += uint16(step)
	default:
		n.last, unknown = n.last+2, true
	}
	first, n.from, n.again = n.last, from, false
	n.last += uint16(pieces - 1)
	return first, unknown
}

// pieces returns the packets that carry a packet by SRTP, or nil. All players that get the packet as it comes share
// them.
func (p *packet) pieces() []*rtp.Packet {
	if p.cut == nil {
		list := p.split()
		p.cut = &list
	}
	return *p.cut
}

func (p *packet) split() []*rtp.Packet {
	const limit = maxPacket - srtpOverhead
	if p.rtp.MarshalSize() <= limit {
		return []*rtp.Packet{p.rtp}
	}
	for _, f := range p.media.Formats {
		if f.PayloadType() == p.rtp.PayloadType {
			return rtpsplit.Split(f, p.rtp, limit)
		}
	}
	return nil
}
