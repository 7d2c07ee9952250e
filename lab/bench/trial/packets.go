package trial

import "sluice/lab/measure"

// isMedia reports whether a packet came to a relay's port for media, or from it. A machine of its own has other
// traffic, too.
func isMedia(p measure.Packet, port uint16) bool {
	if p.Point == measure.In {
		return p.Flow.Target.Port() == port
	}
	return p.Flow.Source.Port() == port
}

// countPackets returns how many packets with media left the last of the relays.
func countPackets(packets []measure.Packet, relays int) (n int) {
	for _, p := range packets {
		if p.Point == relays && p.Length >= measure.MinLength {
			n++
		}
	}
	return n
}
