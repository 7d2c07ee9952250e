package media

// delivery is which bytes of a stream have arrived, and which are to be sent again. It is in stream offsets. It is
// guarded by the sender's lock.
type delivery struct {
	acked, lost       spans // disjoint
	finAcked, finLost bool
}

// markAcked notes that [from, to) and perhaps FIN have arrived.
func (d *delivery) markAcked(from, to int64, fin bool) {
	d.acked.add(from, to)
	d.lost.remove(from, to)
	if fin {
		d.finAcked, d.finLost = true, false
	}
}

// markLost notes that a packet with [from, to) and perhaps FIN was lost, except for what other packets have delivered.
func (d *delivery) markLost(from, to int64, fin bool) {
	d.lost.addMissing(from, to, d.acked)
	d.finLost = d.finLost || fin && !d.finAcked
}

// markResent notes that [from, to) and perhaps FIN are sent again.
func (d *delivery) markResent(from, to int64, fin bool) {
	d.lost.remove(from, to)
	if fin {
		d.finLost = false
	}
}

// complete reports whether the stream's bytes up to its end, and FIN, have arrived.
func (d *delivery) complete(end int64) bool { return d.finAcked && d.acked.contains(0, end) }

// released returns up to which offset nothing will be sent again.
func (d *delivery) released() int64 {
	if len(d.acked) > 0 && d.acked[0].from == 0 {
		return d.acked[0].to
	}
	return 0
}
