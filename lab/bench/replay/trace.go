package replay

import (
	"slices"
	"time"

	"sluice/lab/bench/pathprofile"
	"sluice/lab/bench/playback"
)

// Trace is the objects of a publisher, and how the path to one subscriber behaves. Times are since the first object.
type Trace struct {
	Title   string
	Tracks  []Track
	Objects []Object // in the order of At
	Path    []Change // in the order of At; the first is at 0
}

// Track is a subscription.
type Track struct {
	Audio    bool
	Priority uint8 // Subscriber Priority
	// Bitrate is the bitrate of a rendition, bit/s. The tracks that have one are renditions of one video, whose groups
	// start together. Default: the track is no rendition.
	Bitrate int
}

// Object is one object, which arrives at the relay as a whole.
type Object struct {
	At       time.Duration
	Track    int // index in Trace.Tracks
	Group    uint64
	Subgroup uint64
	ID       uint64
	Priority uint8 // Publisher Priority, the same for all objects of a subgroup
	Size     int   // of the payload, bytes
	Key      bool
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
	Bulk  bool          // another flow takes as much as it can get
}

// place is where an object is.
type place struct {
	track     int
	group, id uint64
}

// minQueue has room for one packet.
const minQueue = 1500

// Length returns how long the media lasts.
func (t *Trace) Length() time.Duration {
	last := t.Objects[len(t.Objects)-1]
	return last.At + t.interval(last.Track)
}

// interval returns the average time between the objects of a track.
func (t *Trace) interval(track int) time.Duration {
	first, last, n := time.Duration(-1), time.Duration(0), 0
	for _, o := range t.Objects {
		if o.Track != track {
			continue
		}
		if n++; first < 0 {
			first = o.At
		}
		last = o.At
	}
	if n < 2 {
		return time.Second
	}
	return (last - first) / time.Duration(n-1)
}

// renditions returns the indices of the tracks that are renditions, by bitrate.
func (t *Trace) renditions() (tracks []int) {
	for i, tr := range t.Tracks {
		if tr.Bitrate > 0 {
			tracks = append(tracks, i)
		}
	}
	slices.SortStableFunc(tracks, func(a, b int) int { return t.Tracks[a].Bitrate - t.Tracks[b].Bitrate })
	return tracks
}

// Rate returns the rate of the media, bit/s. Of several renditions, the best one counts.
func (t *Trace) Rate() float64 {
	lesser := t.renditions()
	if len(lesser) > 0 {
		lesser = lesser[:len(lesser)-1]
	}
	bytes := 0
	for _, o := range t.Objects {
		if !slices.Contains(lesser, o.Track) {
			bytes += o.Size
		}
	}
	return float64(bytes) * 8 / t.Length().Seconds()
}

// Fitting returns for each step the best rendition that fits the path beside all other tracks, as its rank by bitrate,
// or playback.Unsettled while that is new.
func (t *Trace) Fitting() (steps []int) {
	before, since := -1, time.Duration(0)
	other := t.otherRate()
	for at := time.Duration(0); at <= t.Length(); at += FittingStep {
		rate := t.meanRate(at-fittingWindow/2, at+fittingWindow/2)
		best := 0
		for i, track := range t.renditions() {
			if (float64(t.Tracks[track].Bitrate)+other)*overPackets <= rate {
				best = i
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

// otherRate returns the rate of the tracks that are not renditions (audio, for one), in bit/s.
func (t *Trace) otherRate() float64 {
	bytes := 0
	for _, o := range t.Objects {
		if t.Tracks[o.Track].Bitrate == 0 {
			bytes += o.Size
		}
	}
	return float64(bytes) * 8 / t.Length().Seconds()
}

// meanRate returns the mean rate of the path between two times, as far as the trace has them, bit/s.
func (t *Trace) meanRate(from, to time.Duration) float64 {
	from, to = max(from, 0), min(to, t.Length())
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
	on.Path = nil
	for _, point := range p.Rates(t.Length(), seed) {
		on.Path = append(on.Path, Change{
			At: point.At.Truncate(time.Microsecond), Rate: int64(point.Rate * rate),
			Queue: max(int(rate/8*p.Queue.Seconds()), minQueue), RTT: p.RTT, Loss: p.Loss, Bulk: p.Bulk,
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
