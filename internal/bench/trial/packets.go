package trial

import (
	"sluice/internal/lab/measure"
)

// Points of Measurement.Packets with one relay. With a chain of them they are those of [lab.Chain].
const (
	IntoRelay = iota
	OutOfRelay
)

const relayPort = 4443

// MinPacket is the smallest UDP payload that counts as media. Acknowledgements are smaller.
const MinPacket = 100

// isRelays reports whether a packet came to the relay's port, or from it. A machine of its own has other traffic, too.
func isRelays(p measure.Packet) bool {
	if p.Point == IntoRelay {
		return p.Flow.Target.Port() == relayPort
	}
	return p.Flow.Source.Port() == relayPort
}

// countPackets returns how many packets with media left the last of the relays.
func countPackets(packets []measure.Packet, relays int) (n int) {
	for _, p := range packets {
		if p.Point == relays && p.Length >= MinPacket {
			n++
		}
	}
	return n
}
