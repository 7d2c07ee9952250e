package replay

import (
	"slices"
	"time"
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
