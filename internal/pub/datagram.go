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
	_ = d.pub.SendDatagram(moqt.ObjectDatagram{ // may get lost as well as fail
		Location: o.location, DefaultPriority: o.priority == d.track.priority, Priority: o.priority, Payload: o.payload,
	})
}

// tooLate reports whether a delivery timeout is over; for datagrams both mean the same.
func (d *delivery) tooLate(o *object) bool {
	age := time.Since(o.born)
	return d.objectTO > 0 && age > d.objectTO || d.finishTO > 0 && age > d.finishTO
}

// endDatagrams says that a group of datagrams has no object from a location on, which no stream tells.
func (d *delivery) endDatagrams(end moqt.Location) {
	if d.track.datagrams && d.wants(end) {
		_ = d.pub.SendDatagram(moqt.ObjectDatagram{Location: end, DefaultPriority: true, Status: moqt.StatusEndOfGroup})
	}
}
