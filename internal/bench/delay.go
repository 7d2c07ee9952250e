package bench

import (
	"net/netip"
	"slices"
	"time"

	"sluice/internal/lab"
)

// delays are those that a relay added to frames, milliseconds, sorted.
type delays struct {
	first, last             []float64 // of all subscribers
	fanoutFirst, fanoutLast []float64 // of the first and the last subscriber that was served
	jitter                  []float64
	unmatched               float64 // share of all frames
}

// Points of a capture.
const (
	intoRelay = iota
	outOfRelay
)

// minPacket is the least UDP payload that counts as media: acknowledgements are shorter.
const minPacket = 100

// measureDelays matches what went into a relay with what came out for each of the subscribers.
func measureDelays(packets []lab.Packet, subscribers int) (d delays) {
	bursts := lab.MatchBursts(packets, intoRelay, outOfRelay, lab.BurstConfig{MinLength: minPacket})
	frames := make(map[time.Duration][]lab.BurstDelay) // by when they came in
	previous := make(map[netip.AddrPort]float64)
	for _, b := range bursts.Matched {
		first := milliseconds(b.First())
		d.first = append(d.first, first)
		d.last = append(d.last, milliseconds(b.Last()))
		if before, ok := previous[b.Target]; ok {
			d.jitter = append(d.jitter, max(first-before, before-first))
		}
		previous[b.Target] = first
		frames[b.In.First] = append(frames[b.In.First], b)
	}
	for _, targets := range frames {
		if len(targets) == subscribers {
			d.fanoutFirst = append(d.fanoutFirst, milliseconds(slices.MinFunc(targets, by(lab.BurstDelay.First)).First()))
			d.fanoutLast = append(d.fanoutLast, milliseconds(slices.MaxFunc(targets, by(lab.BurstDelay.Last)).Last()))
		}
	}
	if all := len(bursts.Matched) + bursts.Unmatched; all > 0 {
		d.unmatched = float64(bursts.Unmatched) / float64(all)
	}
	for _, values := range [][]float64{d.first, d.last, d.fanoutFirst, d.fanoutLast, d.jitter} {
		slices.Sort(values)
	}
	return d
}

func by(of func(lab.BurstDelay) time.Duration) func(a, b lab.BurstDelay) int {
	return func(a, b lab.BurstDelay) int { return int(of(a) - of(b)) }
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// add adds the delays to what a run found.
func (d *delays) add(o *outcome) {
	for name, values := range map[string][]float64{
		"first": d.first, "last": d.last, "fanout.first": d.fanoutFirst, "fanout.last": d.fanoutLast, "jitter": d.jitter,
	} {
		o.values[name] = values
		addQuantiles(o.Metrics, name, values)
	}
	o.Metrics["unmatched"] = 100 * d.unmatched
}

// countPackets returns how many packets with media left the relay.
func countPackets(packets []lab.Packet) (n int) {
	for _, p := range packets {
		if p.Point == outOfRelay && p.Length >= minPacket {
			n++
		}
	}
	return n
}
