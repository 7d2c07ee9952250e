package packet

import (
	"errors"
	"math"
	"time"

	"github.com/quic-go/quic-go"
)

var errAck = errors.New("invalid ACK frame")

// ParseAck reads the ACK frame that b begins with, type included, into a, whose Ranges it reuses (RFC 9000 §19.3). It
// returns the bytes after the frame. delayExponent is the peer's ack_delay_exponent. It does not set Received.
func ParseAck(b []byte, delayExponent uint8, a *quic.AckInfo) (rest []byte, err error) {
	f := fields{b: b}
	withECN := f.next() == FrameAckECN
	largest, delay, more, length := f.next(), f.next(), f.next(), f.next()
	*a = quic.AckInfo{Ranges: a.Ranges[:0], Delay: ackDelay(delay, delayExponent)}
	for {
		if f.short || length > largest {
			return nil, errAck
		}
		smallest := largest - length
		a.Ranges = append(a.Ranges, quic.AckRange{Smallest: int64(smallest), Largest: int64(largest)})
		if more == 0 {
			break
		}
		more--
		gap := f.next() + 2
		if gap > smallest {
			return nil, errAck
		}
		largest, length = smallest-gap, f.next()
	}
	if withECN {
		a.ECT0, a.ECT1, a.ECNCE = f.next(), f.next(), f.next()
	}
	if f.short {
		return nil, errAck
	}
	return f.b, nil
}

// ackDelay returns an ACK Delay field as a duration, or the longest one if it is longer.
func ackDelay(v uint64, exponent uint8) time.Duration {
	const longest = math.MaxInt64 / uint64(time.Microsecond)
	if exponent > 20 || v > longest>>exponent { // RFC 9000 §18.2
		return math.MaxInt64
	}
	return time.Duration(v<<exponent) * time.Microsecond
}

// fields reads variable-length integers (RFC 9000 §16).
type fields struct {
	b     []byte
	short bool // b has ended
}

// next returns the next integer, or 0 if it is not there.
func (f *fields) next() (v uint64) {
	if len(f.b) == 0 || len(f.b) < 1<<(f.b[0]>>6) {
		f.b, f.short = nil, true
		return 0
	}
	n := 1 << (f.b[0] >> 6)
	v = uint64(f.b[0] & 0x3f)
	for _, x := range f.b[1:n] {
		v = v<<8 | uint64(x)
	}
	f.b = f.b[n:]
	return v
}
