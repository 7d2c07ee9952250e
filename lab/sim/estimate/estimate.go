package estimate

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Packet is what an observer knows of an encrypted packet.
type Packet struct {
	At     time.Duration // when it passed
	Size   int           // of its UDP payload
	Server bool          // the server has sent it
}

const (
	maxAck      = 100                   // bytes: a longer packet has more than an ACK
	maxAckDelay = 25 * time.Millisecond // RFC 9000 §18.2: the default, which nearly all implementations have
	leastFull   = 1200                  // bytes (RFC 9000 §14)
	fullPacket  = .95                   // of the longest packet
	mostlyFull  = .95                   // of the packets with data, if the application has always more

	pause    = 2 * time.Millisecond // packets tell something if their sender paused before
	step     = 500 * time.Microsecond
	farthest = 400 * time.Millisecond
	least    = 5  // answers that a delay has to explain
	alike    = .8 // of the answers that the best delay explains: another one explains nearly as many
)

// ToEnd returns the RTT between the observer and an end, by packets that have passed in order of time. It reports false
// if they do not tell.
func ToEnd(packets []Packet, server bool) (rtt time.Duration, ok bool) {
	v := view{to: newSide(packets, !server), from: newSide(packets, server)}
	switch {
	case v.from.alwaysMore:
		return search(v.from.full, v.lateTrain, repeated)
	case v.to.alwaysMore:
		return search(v.from.acks, v.lateACK, repeated)
	case len(v.to.data) >= least:
		return search(v.from.acks, v.lateACK, none)
	}
	return search(v.from.acks, v.lateProbe, delayed)
}

// others are the delays that may explain nearly as many packets as the right one does.
type others int

const (
	none     others = iota
	repeated        // of full windows, which repeat the pauses of the window before: the right one is the shortest
	delayed         // of ACKs that are delayed, or not: others are maxAckDelay away
)

// side is what an end has sent.
type side struct {
	at     []time.Duration // when packets passed
	data   []time.Duration // packets with more than an ACK
	trains []time.Duration // packets after a pause
	acks   []int           // packets after a pause that may have only an ACK
	full   []int           // packets after a pause that are as long as packets get
	// alwaysMore is set if nearly all packets with data are full: the window limits the end, and not the application.
	alwaysMore bool
}

func newSide(packets []Packet, server bool) *side {
	s, longest, full := new(side), leastFull, 0
	for _, p := range packets {
		if p.Server == server {
			longest = max(longest, p.Size)
		}
	}
	for _, p := range packets {
		if p.Server != server {
			continue
		}
		n := len(s.at)
		train := n > 0 && p.At-s.at[n-1] >= pause
		s.at = append(s.at, p.At)
		if train {
			s.trains = append(s.trains, p.At)
		}
		if p.Size <= maxAck {
			if train {
				s.acks = append(s.acks, n)
			}
			continue
		}
		s.data = append(s.data, p.At)
		if float64(p.Size) < fullPacket*float64(longest) {
			continue
		}
		full++
		if train {
			s.full = append(s.full, n)
		}
	}
	s.alwaysMore = float64(full) >= mostlyFull*float64(len(s.data)) && full > 0
	return s
}

// view is both sides, for somebody who wants to know how far an end is: packets to it and from it.
type view struct{ to, from *side }

// late returns how much later than expected a packet from the end has come, if the end is as far as that.
type late func(packet int, rtt time.Duration) (time.Duration, bool)

// lateACK expects an ACK of the second packet with data since the end has sent something, or maxAckDelay after the
// first one (RFC 9000 §13.2.2).
func (v view) lateACK(packet int, rtt time.Duration) (time.Duration, bool) {
	before := v.from.at[packet-1] + step/2 - rtt
	first := sort.Search(len(v.to.data), func(i int) bool { return v.to.data[i] > before })
	if first == len(v.to.data) {
		return 0, false
	}
	expected := v.to.data[first] + maxAckDelay
	if first+1 < len(v.to.data) {
		expected = min(expected, v.to.data[first+1])
	}
	return v.from.at[packet] - rtt - expected, true
}

// lateProbe expects an ACK of any packet, maxAckDelay after it, or at once if packets before it are missing: one in
// twenty ACKs asks for an ACK, and nobody sees which.
func (v view) lateProbe(packet int, rtt time.Duration) (time.Duration, bool) {
	sent := v.from.at[packet] - rtt
	late, ok := nearest(v.to.at, sent-maxAckDelay)
	if atOnce, _ := nearest(v.to.at, sent); ok && atOnce.Abs() < late.Abs() {
		late = atOnce
	}
	return late, ok
}

// lateTrain expects data when the first ACK after a pause makes room for it.
func (v view) lateTrain(packet int, rtt time.Duration) (time.Duration, bool) {
	if rtt < 2*step {
		return 0, false // it may be the ACK that answers
	}
	return nearest(v.to.trains, v.from.at[packet]-rtt)
}

// nearest returns how much later a time is than the nearest one of a list.
func nearest(list []time.Duration, at time.Duration) (late time.Duration, ok bool) {
	i, _ := slices.BinarySearch(list, at)
	for _, n := range list[max(i-1, 0):min(i+1, len(list))] {
		if !ok || (at-n).Abs() < late.Abs() {
			late, ok = at-n, true
		}
	}
	return late, ok
}

// search returns the delay that explains most of some packets. It reports false if others do nearly as well that should
// not.
func search(packets []int, f late, may others) (rtt time.Duration, ok bool) {
	explained := make([]int, farthest/step)
	for i := range explained {
		explained[i] = len(off(packets, f, time.Duration(i)*step))
	}
	most := slices.Max(explained)
	if most < least || 4*most < len(packets) || 2*median(slices.Clone(explained)) > most {
		return 0, false
	}
	good := func(n int) bool { return float64(n) >= alike*float64(most) }
	best := slices.Index(explained, most)
	if may == repeated {
		best = slices.IndexFunc(explained, good)
	}
	for i, n := range explained {
		more := time.Duration(i-best) * step
		same := more.Abs() <= max(4*step, time.Duration(best)*step/10)
		if same && n > explained[best] {
			best = i
		}
		if !same && good(n) && (may == none || may == delayed && (more.Abs()-maxAckDelay).Abs() > 2*step) {
			return 0, false
		}
	}
	rtt = time.Duration(best) * step
	return max(rtt+median(off(packets, f, rtt)), 0), true
}

// off returns how much later than expected packets have come, as far as a delay explains them.
func off(packets []int, f late, rtt time.Duration) (all []time.Duration) {
	for _, p := range packets {
		if d, ok := f(p, rtt); ok && d.Abs() <= step {
			all = append(all, d)
		}
	}
	return all
}

// median returns the median of some values, which it sorts.
func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
