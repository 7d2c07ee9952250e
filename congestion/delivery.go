package congestion

import (
	"time"

	"sluice/clock"
)

// deliveryRate measures how fast the path delivers (draft-ietf-ccwg-bbr, Delivery Rate Samples). The draft keeps a copy
// of the counters with each packet. Here, the counters follow from the time when the packet was sent: each ACK leaves a
// checkpoint, and a packet belongs to the last checkpoint before it. So the packets that a forwarder sends count, too,
// although nobody reports that they are sent. The zero value is ready to use.
type deliveryRate struct {
	delivered, lost float64 // bytes, ever
	marked          float64 // bytes with CE, which are in both
	firstSent       clock.Time
	limitedUntil    float64 // packets that were sent before that much was delivered say nothing about the path

	points   [maxCheckpoints]checkpoint // a ring
	start, n int
}

const (
	maxCheckpoints = 32
	perRoundTrip   = 16 // checkpoints in a round trip. So samples span at most a sixteenth more
)

// checkpoint holds the counters for packets that were sent from a time on, until the next checkpoint.
type checkpoint struct {
	from            clock.Time
	delivered, lost float64
	marked          float64
	at              clock.Time // when delivered was reached, or when the first packet was sent after a pause
	firstSent       clock.Time // when the latest packet acknowledged by then was sent
}

// at returns the i-th checkpoint; the latest acknowledged packet belongs to the 0th.
func (d *deliveryRate) at(i int) *checkpoint { return &d.points[(d.start+i)%maxCheckpoints] }

// deliverySample describes the time from when the latest packet of an ACK was sent until the ACK.
type deliverySample struct {
	known      bool    // false: the ACK says nothing, because its packets were overtaken
	rate       float64 // bytes per second; 0: not known
	delivered  float64 // bytes since the packet was sent
	lost       float64 // and marked with CE instead
	marked     float64
	prior      float64 // bytes that had been delivered when the packet was sent
	appLimited bool    // the application, not the path, limited the rate
	resumed    bool    // nothing was in flight before these packets
}

// inFlight returns how many bytes were in flight when the packet was sent: they have arrived or were lost since.
func (s *deliverySample) inFlight() float64 { return s.delivered + s.lost - s.marked }

// acked takes a sample.
func (d *deliveryRate) acked(e AckEvent, minRTT time.Duration) (s deliverySample) {
	now := e.Now
	if d.n == 0 {
		d.append(checkpoint{at: e.First, firstSent: e.First}, 0)
		s.resumed = true
	} else {
		last := d.at(d.n - 1)
		now = max(now, last.from)
		if s.resumed = e.First > last.from; s.resumed {
			last.at, last.firstSent = e.First, e.First
		}
	}
	d.delivered += float64(e.Bytes)
	if e.Sent >= d.firstSent {
		d.forget(e.Sent)
		s = d.sample(e, now, minRTT, s)
		d.firstSent = e.Sent
	}
	d.append(checkpoint{
		from: now, delivered: d.delivered, lost: d.lost, marked: d.marked, at: now, firstSent: d.firstSent,
	}, e.SRTT/perRoundTrip)
	return s
}

// sample compares now with the first checkpoint.
func (d *deliveryRate) sample(e AckEvent, now clock.Time, minRTT time.Duration, s deliverySample) deliverySample {
	p := d.at(0)
	s.known, s.prior = true, p.delivered
	s.delivered, s.lost, s.marked = d.delivered-p.delivered, d.lost-p.lost, d.marked-p.marked
	s.appLimited = e.AppLimited || p.firstSent < e.LimitedSince || p.delivered < d.limitedUntil
	// ACKs may arrive faster than the path delivers, and packets may leave faster: the longer time counts.
	interval := max(e.Sent.Sub(p.firstSent), now.Sub(p.at))
	if interval > 0 && interval >= minRTT { // else a packet was acknowledged that was not lost, but sent again
		s.rate = s.delivered / interval.Seconds()
	}
	return s
}

// lose notes a loss. It returns the bytes lost and delivered since the latest of the packets left, or a little fewer.
func (d *deliveryRate) lose(e LossEvent) (s deliverySample) {
	d.lost += float64(e.Bytes)
	if d.n == 0 {
		return deliverySample{lost: d.lost}
	}
	p, last := *d.at(0), d.at(d.n-1)
	if last.from >= e.Now { // found with the ACK that has left the checkpoint
		last.lost = d.lost
	}
	return deliverySample{
		known: true, delivered: d.delivered - p.delivered, lost: d.lost - p.lost, marked: d.marked - p.marked,
		prior: p.delivered,
	}
}

// arrived notes that bytes that lose has counted were only marked, and that acked will count them.
func (d *deliveryRate) arrived(bytes int) { d.marked += float64(bytes) }

// limit declares that the packets in flight, which have so many bytes, say nothing about the path.
func (d *deliveryRate) limit(inFlight float64) { d.limitedUntil = d.delivered + inFlight }

// forget forgets the checkpoints before the checkpoint of a packet that was sent at a time.
func (d *deliveryRate) forget(sent clock.Time) {
	for d.n > 1 && d.at(1).from <= sent {
		d.start, d.n = d.start+1, d.n-1
	}
}

// append adds a checkpoint. The new one replaces the last if it is near to the last but one. Packets of the replaced
// checkpoint then belong to the last but one, and their samples span a little more than a round trip.
func (d *deliveryRate) append(p checkpoint, near time.Duration) {
	if d.n > 1 && p.from.Sub(d.at(d.n-2).from) <= near {
		d.n--
	}
	if d.n == maxCheckpoints { // the RTT has grown
		for i := range maxCheckpoints / 2 {
			*d.at(i) = *d.at(2 * i)
		}
		d.n /= 2
	}
	*d.at(d.n) = p
	d.n++
}
