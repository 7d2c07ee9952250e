package trial

import (
	"sluice/internal/lab/measure"
)

// Points of Measurement.Packets.
const (
	IntoRelay = iota
	OutOfRelay
)

// MinPacket is the smallest UDP payload that counts as media. Acknowledgements are smaller.
const MinPacket = 100

// countPackets returns how many packets with media left the relay.
func countPackets(packets []measure.Packet) (n int) {
	for _, p := range packets {
		if p.Point == OutOfRelay && p.Length >= MinPacket {
			n++
		}
	}
	return n
}
