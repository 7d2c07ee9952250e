package measure

import (
	"net/netip"
	"time"
)

const (
	// idle is the silence that ends a burst: longer than any pause inside a media frame, shorter than the time between
	// two frames of video of up to 60 frames a second, on a path of some Mbit/s.
	idle = 5 * time.Millisecond
	// MinLength is the smallest UDP payload of a packet that counts. Acknowledgements are smaller.
	MinLength = 100
	// limit is the longest delay of a frame. A burst that leaves later, in a pause of the stream, is another frame.
	limit = 200 * time.Millisecond
	// tolerance is the fraction by which the bytes of a frame, without packet headers, may differ between both sides.
	// Lost and retransmitted packets make a larger difference.
	tolerance = 0.1
	// headerSlack is by how many bytes the headers of a packet may differ: connection IDs, STREAM frames, MoQT.
	headerSlack = 32
)

// Burst is a run of packets: a media frame on its way.
type Burst struct {
	First, Last    time.Duration // when the first and the last packet passed
	Packets, Bytes int           // Bytes of UDP payload
}

func (b *Burst) add(p Packet) {
	if b.Packets == 0 {
		b.First = p.Time
	}
	b.Last = p.Time
	b.Packets++
	b.Bytes += p.Length
}

// BurstDelay is a frame that entered and left a relay.
type BurstDelay struct {
	Target  netip.AddrPort // the subscriber
	In, Out Burst
}

// First returns the time from the first packet in to the first packet out.
func (d BurstDelay) First() time.Duration { return d.Out.First - d.In.First }

// Last returns the time from the last packet in to the last packet out.
func (d BurstDelay) Last() time.Duration { return d.Out.Last - d.In.Last }

// BurstDelays is the result of MatchBursts.
type BurstDelays struct {
	Matched   []BurstDelay
	Unmatched int // frames that did not leave the relay, or not with the same bytes
}

// First returns the delays from first packet to first packet.
func (b BurstDelays) First() Delays { return b.delays(BurstDelay.First) }

// Last returns the delays from last packet to last packet.
func (b BurstDelays) Last() Delays { return b.delays(BurstDelay.Last) }

func (b BurstDelays) delays(of func(BurstDelay) time.Duration) Delays {
	delays := make(Delays, len(b.Matched))
	for i, m := range b.Matched {
		delays[i] = of(m)
	}
	return delays
}

// MatchBursts measures a relay as a black box. A publisher sends a burst of packets for each media frame. Each burst
// that passes In is matched with the packets that each target gets at Out between the start of this burst and the start
// of the next one. Packets must be in order of time.
//
// The relay must delay a frame by less than the time between two frames. The first and the last burst of a recording
// do not count, because they may be cut off.
func MatchBursts(packets []Packet) BurstDelays {
	incoming := bursts(packets)
	var result BurstDelays
	for _, outgoing := range byTarget(packets) {
		for i := 1; i+1 < len(incoming); i++ {
			window := between(&outgoing, incoming[i].First, incoming[i+1].First)
			d := BurstDelay{In: incoming[i]}
			for _, p := range window {
				d.Target = p.Flow.Target
				d.Out.add(p)
			}
			if d.same() && d.First() <= limit {
				result.Matched = append(result.Matched, d)
			} else {
				result.Unmatched++
			}
		}
	}
	return result
}

// same reports whether about as many bytes left the relay as entered it.
func (d BurstDelay) same() bool {
	difference := d.Out.Bytes - d.In.Bytes
	if difference < 0 {
		difference = -difference
	}
	slack := tolerance*float64(d.In.Bytes) + headerSlack*float64(max(d.In.Packets, d.Out.Packets))
	return d.Out.Packets > 0 && float64(difference) <= slack
}

func bursts(packets []Packet) []Burst {
	var all []Burst
	for _, p := range packets {
		if p.Point != In || p.Length < MinLength {
			continue
		}
		if last := len(all) - 1; last < 0 || p.Time-all[last].Last >= idle {
			all = append(all, Burst{})
		}
		all[len(all)-1].add(p)
	}
	return all
}

// byTarget groups the packets that go out by target, in the order of the first packets.
func byTarget(packets []Packet) [][]Packet {
	index := make(map[netip.AddrPort]int)
	var groups [][]Packet
	for _, p := range packets {
		if p.Point != Out || p.Length < MinLength {
			continue
		}
		i, ok := index[p.Flow.Target]
		if !ok {
			i = len(groups)
			index[p.Flow.Target] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

// between removes the packets before end from the front of queue, and returns those from start on.
func between(queue *[]Packet, start, end time.Duration) []Packet {
	packets := *queue
	for len(packets) > 0 && packets[0].Time < start {
		packets = packets[1:]
	}
	n := 0
	for n < len(packets) && packets[n].Time < end {
		n++
	}
	*queue = packets[n:]
	return packets[:n]
}
