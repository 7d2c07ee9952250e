package pub

import (
	"time"

	"sluice/moqt"
)

// maxDatagramPayload is how many bytes of an object fit into a datagram wherever QUIC works: packets of 1,200 bytes,
// less 41 for the packet, 11 for the DATAGRAM frame on WebTransport and 26 for the object's header, as long as they can
// be.
const maxDatagramPayload = 1100

// sendDatagram sends an object in a datagram, or drops it if that is too late (draft §8).
func (d *delivery) sendDatagram(o *object) {
	if !d.wants(o.location) || d.tooLate(o) {
		return
	}
	_ = d.pub.SendDatagram(moqt.ObjectDatagram{ // an error is like a loss
		Location: o.location, DefaultPriority: o.priority == d.track.priority, Priority: o.priority, Payload: o.payload,
	})
}

// tooLate reports whether a delivery timeout has passed. Both timeouts mean the same for datagrams.
func (d *delivery) tooLate(o *object) bool {
	age := time.Since(o.born)
	return d.objectTimeout > 0 && age > d.objectTimeout || d.subgroupTimeout > 0 && age > d.subgroupTimeout
}

// endDatagrams marks the end of a group that is sent in datagrams: no stream ends that would mark it.
func (d *delivery) endDatagrams(end moqt.Location) {
	if d.track.datagrams && d.wants(end) {
		_ = d.pub.SendDatagram(moqt.ObjectDatagram{Location: end, DefaultPriority: true, Status: moqt.StatusEndOfGroup})
	}
}
