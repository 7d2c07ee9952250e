package lab

import (
	"slices"

	"sluice/lab/measure"
)

// Chain is relays of a lab that send media one to the other: from the publisher to the first, from each to the next,
// and from the last to subscribers.
type Chain struct {
	lab    *Lab
	length int
}

// Points returns where to capture packets: where the first relay gets them, and where each relay sends them on.
func (c Chain) Points() []Point {
	points := []Point{{Device: c.lab.Relay.Device("up"), Direction: ToHost}}
	for i, relay := range c.lab.Relays[:c.length] {
		device := relay.Devices[0]
		if i == c.length-1 {
			device = relay.Devices[len(relay.Devices)-1]
		}
		points = append(points, Point{Device: device, Direction: FromHost})
	}
	return points
}

// Until returns, of the packets that a capture has recorded at Points, those that the publisher has sent to the first
// relay (measure.In), and those that the chain has sent to a host (measure.Out): a subscriber, or one of its relays
// after the first.
func (c Chain) Until(packets []measure.Packet, h *Host) []measure.Packet {
	last := c.length
	if i := slices.Index(c.lab.Relays, h); i > 0 {
		last = i
	}
	var along []measure.Packet
	for _, p := range packets {
		switch {
		case p.Point == 0 && c.lab.Publisher.has(p.Flow.Source.Addr()):
			p.Point = measure.In
		case p.Point == last && h.has(p.Flow.Target.Addr()):
			p.Point = measure.Out
		default:
			continue
		}
		along = append(along, p)
	}
	return along
}
