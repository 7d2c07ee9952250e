package replay

import (
	"slices"
	"time"

	"sluice/lab/bench/pathprofile"
	"sluice/lab/bench/playback"
)

// Trace is the objects of a publisher, and how the path to one subscriber behaves. Times are since the first object.
type Trace struct {
	Objects []Object // in the order of At
	Path    []Change // in the order of At; the first is at 0
	Bulk    bool     // another flow on the path takes as much as it can get

	bitrates []float64     // of the renditions of the video, bit/s, the best one first
	length   time.Duration // of the media
}

// Object is one object, which arrives at the relay as a whole.
type Object struct {
	At       time.Duration
	Track    int // a rendition by its number in Trace.bitrates, or the audio, which follows them
	Group    uint64
	Subgroup uint64
	ID       uint64
	Priority uint8 // Publisher Priority, the same for all objects of a subgroup
	Size     int   // of the payload, bytes
	// Needs is the Object ID of the frame of the same group that this one refers to. Default: none.
	Needs *uint64
}

// Change is how the path behaves from a time on.
type Change struct {
	At    time.Duration
	Rate  int64         // of the bottleneck, bit/s; 0: nothing passes
	Queue int           // bytes that may wait
	RTT   time.Duration // without the wait
	Loss  float64       // of each packet, from 0 to 1
}

// place is where an object is.
type place struct {
	track     int
	group, id uint64
}

// minQueue has room for one packet.
const minQueue = 1500

// isAudio reports whether an object is of the audio.
func (t *Trace) isAudio(o *Object) bool { return o.Track == len(t.bitrates) }

// kind returns what an object is to a viewer.
func (t *Trace) kind(o *Object) playback.Kind {
	switch {
	case t.isAudio(o):
		return playback.Audio
	case o.ID == 0:
		return playback.Key
	}
	return playback.Picture
}

// rank returns the rank of a rendition by bitrate, from 0 on.
func (t *Trace) rank(track int) int { return len(t.bitrates) - 1 - track }

// Rate returns the rate of the media, bit/s. Of several renditions, the best one counts.
func (t *Trace) Rate() float64 {
	return t.rate(func(o *Object) bool { return o.Track == 0 || t.isAudio(o) })
}

// rate returns the rate of some objects, bit/s.
func (t *Trace) rate(counts func(*Object) bool) float64 {
	bytes := 0
	for i := range t.Objects {
		if o := &t.Objects[i]; counts(o) {
			bytes += o.Size
		}
	}
	return float64(bytes) * 8 / t.length.Seconds()
}

// Fitting returns for each step the best rendition that fits the path beside the audio, as its rank by bitrate,
// or playback.Unsettled while that is new.
func (t *Trace) Fitting() (steps []int) {
	before, since := -1, time.Duration(0)
	audio := t.rate(t.isAudio)
	for at := time.Duration(0); at <= t.length; at += FittingStep {
		rate := t.meanRate(at-fittingWindow/2, at+fittingWindow/2)
		best := 0
		for track, bitrate := range slices.Backward(t.bitrates) {
			if (bitrate+audio)*overPackets <= rate {
				best = t.rank(track)
			}
		}
		if best != before {
			before, since = best, at
		}
		if at-since < settling {
			best = playback.Unsettled
		}
		steps = append(steps, best)
	}
	return steps
}

// meanRate returns the mean rate of the path between two times, as far as the trace has them, bit/s.
func (t *Trace) meanRate(from, to time.Duration) float64 {
	from, to = max(from, 0), min(to, t.length)
	sum := 0.
	for i, c := range t.Path {
		end := to
		if i+1 < len(t.Path) {
			end = min(end, t.Path[i+1].At)
		}
		if d := end - max(from, c.At); d > 0 {
			sum += float64(c.Rate) * d.Seconds()
		}
	}
	return sum / (to - from).Seconds()
}

// On returns the trace with the path of a profile. Rates are parts of the rate of its media.
func (t *Trace) On(p pathprofile.Profile, seed uint64) *Trace {
	on, rate := *t, t.Rate()
	on.Path, on.Bulk = nil, p.Bulk
	for _, point := range p.Rates(t.length, seed) {
		on.Path = append(on.Path, Change{
			At: point.At.Truncate(time.Microsecond), Rate: int64(point.Rate * rate),
			Queue: max(int(rate/8*p.Queue.Seconds()), minQueue), RTT: p.RTT, Loss: p.Loss,
		})
	}
	return &on
}

const (
	// FittingStep is how often it is computed which rendition fits the path.
	FittingStep = 100 * time.Millisecond
	// fittingWindow is over how much time the rate of the path counts for that, half of it before and half after.
	fittingWindow = 10 * time.Second
	// settling is how long a viewer has to find the rendition that fits, once another one does.
	settling = 15 * time.Second
	// overPackets is the overhead of packets over media.
	overPackets = 1.05
)
