package pub

import (
	"time"

	"sluice/moqt"
)

// maxDatagramPayload is the largest payload with its properties, in bytes, that is sent in a datagram. It fits into a
// packet of 1,200 bytes, which every path carries, after at most 41 bytes of the packet, 11 of the DATAGRAM frame on
// WebTransport and 26 of the object's header.
const maxDatagramPayload = 1100

// sendDatagram sends an object in a datagram, or drops it if that is too late (draft §8).
func (d *delivery) sendDatagram(o *object) {
	if !d.wants(o.location) || d.tooLate(o) {
		return
	}
	_ = d.pub.SendDatagram(moqt.ObjectDatagram{ // an error is like a loss
		Location: o.location, DefaultPriority: o.priority == d.track.priority, Priority: o.priority, Payload: o.payload,
		Properties: o.wireProperties(d.pub.Session().Version()),
	})
}

// tooLate reports whether a delivery timeout has passed. Both timeouts mean the same for datagrams.
func (d *delivery) tooLate(o *object) bool {
	age := time.Since(o.born)
	return d.objectTimeout > 0 && age > d.objectTimeout || d.subgroupTimeout > 0 && age > d.subgroupTimeout
}

// endDatagrams marks the end of a group that is sent in datagrams: there is no stream whose end would mark it.
func (d *delivery) endDatagrams(end moqt.Location) {
	if d.track.datagrams && d.wants(end) {
		_ = d.pub.SendDatagram(moqt.ObjectDatagram{Location: end, DefaultPriority: true, Status: moqt.StatusEndOfGroup})
	}
}
