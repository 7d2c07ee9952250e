package wire

import "math/rand/v2"

// Bits of a short header that tell losses, if both ends agree (RFC 9506).
const (
	squareBit    = 0x10
	lossEventBit = 0x08
)

// LossPath is one direction of a QUIC connection in its 1-RTT phase. Its packets pass an observer.
type LossPath struct {
	Packets       int
	Block         int              // packets between two changes of the square bit; 0: 64
	Before, After float64          // probability that a packet is lost before or behind the observer
	Burst         int              // number of the first of 80 packets that are lost before the observer; 0: none
	Reorder       float64          // probability that a packet passes the observer five packets later
	Second        func(n int) bool // the other bit of a packet; nil: the loss event bit
	Hidden        bool             // the bits are random, because of header protection
	Seed          uint64
}

// LossPacket is a packet that passes the observer.
type LossPacket struct {
	Number int
	Bits   byte // of the first byte
}

const (
	lossBurst  = 80
	lossNotice = 50 // packets that are sent until the sender knows of a loss
	overtaken  = 5
)

// Seen returns the packets in the order in which they pass the observer.
func (l LossPath) Seen() (seen []LossPacket) {
	rng := rand.New(rand.NewPCG(l.Seed, 2))
	block, unreported := l.Block, 0
	if block == 0 {
		block = 64
	}
	lost := make([]bool, l.Packets)
	late := make(map[int]LossPacket)
	for n := range l.Packets {
		if n >= lossNotice && lost[n-lossNotice] {
			unreported++
		}
		p := LossPacket{Number: n}
		if n/block%2 == 1 {
			p.Bits |= squareBit
		}
		second := unreported > 0
		if unreported > 0 {
			unreported--
		}
		if l.Second != nil {
			second = l.Second(n)
		}
		if second {
			p.Bits |= lossEventBit
		}
		if l.Hidden {
			p.Bits = byte(rng.Uint32()) & (squareBit | lossEventBit)
		}
		before := rng.Float64() < l.Before || l.Burst > 0 && n >= l.Burst && n < l.Burst+lossBurst
		lost[n] = before || rng.Float64() < l.After
		switch {
		case before:
		case rng.Float64() < l.Reorder:
			late[n+overtaken] = p
		default:
			seen = append(seen, p)
		}
		if p, ok := late[n]; ok {
			seen = append(seen, p)
		}
	}
	return seen
}
