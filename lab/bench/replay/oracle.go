package replay

import (
	"cmp"
	"slices"
	"time"

	"sluice/clock"
	"sluice/lab/bench/playback"
)

// oracle chooses objects for a path that it knows from the begin to the end, and sends nothing else. No policy can do
// much better: it has no window, finds no queue, loses no packet and shares packets between objects. Like a relay, it
// leaves no hole in a subgroup.
//
// Times are the bits that the path can have carried by then: so each bit takes as long as any other.
type oracle struct {
	trace           *Trace
	path            []float64 // times of its changes
	release, latest []float64 // when the relay has an object, and when the object must have left the bottleneck
	cost            []float64 // bits
	chosen          []bool
	done            []float64 // when all chosen objects up to this one have left; if ordered, when this one has
	ordered         bool      // more important objects overtake others
	busy            intervals // if ordered: times at which chosen objects leave
}

const (
	// oraclePayload is how many of a packet's bytes are at most an object's: without short header, tag and the header
	// of a STREAM frame with small numbers.
	oraclePayload = mtu - (1 + connIDLength + 2) - 16 - 4
	objectHeader  = 2
)

// runOracle returns the outcome if the relay had known the path, and no object were older than a limit on arrival.
func runOracle(t *Trace, limit time.Duration, ordered bool) Outcome {
	alone := *t
	alone.Path = slices.Clone(t.Path)
	for i := range alone.Path {
		if t.Bulk { // which gets half of it
			alone.Path[i].Rate /= 2
		}
	}
	t = &alone
	o := newOracle(t, limit)
	o.ordered = ordered
	o.choose()
	p := path{changes: t.Path, begin: begin}
	arrived, packets := make([]clock.Time, len(t.Objects)), 0.
	for i := range t.Objects {
		if o.chosen[i] {
			leaves := p.finish(begin, int(o.done[i]/8))
			arrived[i] = leaves.Add(p.delay(leaves))
			packets += o.cost[i] / 8 / (mtu + overhead)
		}
	}
	s := simulation{trace: t, receiver: &receiver{arrivedAt: arrived}}
	return Outcome{Score: playback.Play(s.frames(), t.length), Packets: int(packets)}
}

func newOracle(t *Trace, limit time.Duration) *oracle {
	n := len(t.Objects)
	o := &oracle{
		trace: t, path: make([]float64, len(t.Path)), release: make([]float64, n), latest: make([]float64, n),
		cost: make([]float64, n), chosen: make([]bool, n), done: make([]float64, n),
	}
	for i := 1; i < len(t.Path); i++ {
		o.path[i] = o.path[i-1] + float64(t.Path[i-1].Rate)*(t.Path[i].At-t.Path[i-1].At).Seconds()
	}
	for i, b := range t.Objects {
		c := t.Path[o.change(b.At)]
		o.release[i] = o.bits(b.At)
		o.latest[i] = o.bits(b.At + limit - c.RTT/2)
		o.cost[i] = 8 * float64(b.Size+objectHeader) * (mtu + overhead) / oraclePayload / (1 - c.Loss)
	}
	return o
}

// change returns the index of the change that holds at a time.
func (o *oracle) change(at time.Duration) int {
	i, found := slices.BinarySearchFunc(o.trace.Path, at, func(c Change, at time.Duration) int {
		return cmp.Compare(c.At, at)
	})
	if found {
		return i
	}
	return max(i-1, 0)
}

// bits returns how many bits the path can have carried by a time.
func (o *oracle) bits(at time.Duration) float64 {
	i := o.change(at)
	return o.path[i] + float64(o.trace.Path[i].Rate)*(at-o.trace.Path[i].At).Seconds()
}

// choose chooses audio first, then key frames, and then pictures from the most important level on, as far as they fit
// beside the chosen ones and can be shown. A subgroup ends with the first object that does not.
func (o *oracle) choose() {
	order := make([]int, len(o.trace.Objects))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(o.rank(a), o.rank(b)) })
	chosen, ended := make(map[place]bool), make(map[place]bool)
	for _, i := range order {
		b := &o.trace.Objects[i]
		subgroup := place{b.Track, b.Group, b.Subgroup}
		needs := b.Needs == nil || chosen[place{b.Track, b.Group, *b.Needs}]
		if ended[subgroup] || !needs || !o.take(i) {
			ended[subgroup] = true
			continue
		}
		o.chosen[i], chosen[place{b.Track, b.Group, b.ID}] = true, true
	}
}

func (o *oracle) rank(i int) int {
	b := &o.trace.Objects[i]
	switch o.trace.kind(b) {
	case playback.Audio:
		return -2
	case playback.Key:
		return -1
	}
	return int(b.Priority)
}

// take sends one more object, if it and all that are chosen are in time then. It reports whether they are.
func (o *oracle) take(i int) bool {
	if o.ordered {
		return o.takeGaps(i)
	}
	ok := true
	o.shift(i, func(k int, done float64) { ok = ok && (k != i && !o.chosen[k] || done <= o.latest[k]) })
	if ok {
		o.shift(i, func(k int, done float64) { o.done[k] = done })
	}
	return ok
}

// takeGaps sends an object while nothing more important leaves.
func (o *oracle) takeGaps(i int) bool {
	done, left := o.release[i], o.cost[i]
	for _, b := range o.busy {
		from, to := float64(b.from), float64(b.to)
		if from-done >= left {
			break
		}
		if to > done {
			left, done = left-max(from-done, 0), to
		}
	}
	if o.done[i] = done + left; o.done[i] > o.latest[i] {
		return false
	}
	o.busy.add(int64(o.release[i]), int64(o.done[i]))
	return true
}

// shift calls moved for each object that would leave later, or have nothing before it leave later, if one more were
// sent. Objects leave in the order in which they came: that is also the order of their deadlines.
func (o *oracle) shift(i int, moved func(k int, done float64)) {
	done := 0.
	if i > 0 {
		done = o.done[i-1]
	}
	for k := i; k < len(o.done); k++ {
		if k == i || o.chosen[k] {
			done = max(done, o.release[k]) + o.cost[k]
		}
		if k > i && done <= o.done[k] {
			return
		}
		moved(k, done)
	}
}
