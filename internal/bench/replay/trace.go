package replay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"sluice/internal/bounds"
)

// Trace is the objects of a publisher, and how the path to one subscriber behaved. Times are since the first object.
type Trace struct {
	Title   string
	Tracks  []Track
	Objects []Object // in the order of At
	Path    []Change // in the order of At; the first is at 0
}

// Track is a subscription.
type Track struct {
	Name     string `json:"name"`
	Audio    bool   `json:"audio,omitempty"`
	Priority uint8  `json:"priority"` // Subscriber Priority
	// Bitrate is the bitrate of a rendition, bit/s. The tracks that have one are renditions of one video, whose groups
	// start together. Default: the track is no rendition.
	Bitrate int `json:"bitrate,omitempty"`
}

// Object is one object, which arrives at the relay as a whole.
type Object struct {
	At       Seconds `json:"at"`
	Track    int     `json:"track"` // index in Trace.Tracks
	Group    uint64  `json:"group"`
	Subgroup uint64  `json:"subgroup,omitempty"`
	ID       uint64  `json:"id"`
	Priority uint8   `json:"priority"` // Publisher Priority, the same for all objects of a subgroup
	Size     int     `json:"size"`     // of the payload, bytes
	Key      bool    `json:"key,omitempty"`
	// Needs is the Object ID of the frame of the same group that this one refers to. Default: none.
	Needs *uint64 `json:"needs,omitempty"`
}

// Change is how the path behaves from a time on.
type Change struct {
	At    Seconds `json:"at"`
	Rate  int64   `json:"rate"`           // of the bottleneck, bit/s; 0: nothing passes
	Queue int     `json:"queue"`          // bytes that may wait
	RTT   Seconds `json:"rtt"`            // without the wait
	Loss  float64 `json:"loss,omitempty"` // of each packet, from 0 to 1
	Bulk  bool    `json:"bulk,omitempty"` // another flow takes as much as it can get
}

// Seconds is a duration whose JSON form is a number of seconds, exact to a microsecond.
type Seconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(s).Microseconds()) / 1e6)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var v float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if v < 0 || v > time.Duration(maxLength).Seconds() {
		return fmt.Errorf("time: %g s: must be between 0 and %g", v, time.Duration(maxLength).Seconds())
	}
	*s = Seconds(math.Round(v*1e6) * 1e3)
	return nil
}

// Limits of a trace, which keep a replay within the memory of a small machine.
const (
	maxLength  = Seconds(time.Hour)
	maxTracks  = 16
	maxObjects = 1 << 20
	maxChanges = 1 << 20
	maxSize    = 4 << 20 // of an object
	maxBytes   = 1 << 30 // of all objects
	maxLine    = 64 << 10
	maxName    = 256 // bytes of a title or a name
	maxRate    = 10_000_000_000
)

// traceVersion is the version of the form of traces.
const traceVersion = 1

// line is a line of a trace: one of three.
type line struct {
	Version int     `json:"trace,omitempty"`
	Title   string  `json:"title,omitempty"`
	Tracks  []Track `json:"tracks,omitempty"`
	Object  *Object `json:"object,omitempty"`
	Path    *Change `json:"path,omitempty"`
}

// Write writes the trace as lines of JSON, in the order of time.
func (t *Trace) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	errs := []error{e.Encode(line{Version: traceVersion, Title: t.Title, Tracks: t.Tracks})}
	path := t.Path
	for i := range t.Objects {
		for ; len(path) > 0 && path[0].At <= t.Objects[i].At; path = path[1:] {
			errs = append(errs, e.Encode(line{Path: &path[0]}))
		}
		errs = append(errs, e.Encode(line{Object: &t.Objects[i]}))
	}
	for i := range path {
		errs = append(errs, e.Encode(line{Path: &path[i]}))
	}
	return errors.Join(append(errs, b.Flush())...)
}

// Read reads a trace. Errors name the line.
func Read(r io.Reader) (*Trace, error) {
	t := new(Trace)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for ; lines.Scan(); n++ {
		var l line
		err := json.Unmarshal(lines.Bytes(), &l)
		if err == nil {
			err = t.add(l, n == 0)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return t, t.Validate()
}

func (t *Trace) add(l line, first bool) error {
	switch {
	case first && l.Version != traceVersion:
		return fmt.Errorf("not a trace: must begin with {\"trace\":%d", traceVersion)
	case first:
		t.Title, t.Tracks = l.Title, l.Tracks
	case l.Object != nil && l.Path == nil:
		t.Objects = append(t.Objects, *l.Object)
	case l.Path != nil && l.Object == nil:
		t.Path = append(t.Path, *l.Path)
	default:
		return errors.New("must have either an object or a path")
	}
	return errors.Join(bounds.Check("objects", len(t.Objects), 0, maxObjects),
		bounds.Check("changes of the path", len(t.Path), 0, maxChanges))
}

// Validate returns an error if a trace cannot be replayed.
func (t *Trace) Validate() error {
	switch {
	case len(t.Objects) == 0:
		return errors.New("the trace has no objects")
	case len(t.Path) == 0 || t.Path[0].At != 0:
		return errors.New("the trace does not say how the path is at 0 s")
	}
	if err := bounds.Check("tracks", len(t.Tracks), 1, maxTracks); err != nil {
		return err
	}
	for _, tr := range t.Tracks {
		err := errors.Join(bounds.Check("length of a name", max(len(tr.Name), len(t.Title)), 0, maxName),
			bounds.Check("bitrate", tr.Bitrate, 0, maxRate))
		if err != nil {
			return err
		}
		if tr.Audio && tr.Bitrate > 0 {
			return fmt.Errorf("track %s: audio cannot be a rendition: leave out its bitrate", tr.Name)
		}
	}
	total := 0
	seen := make(map[place]bool)
	last := make(map[place]Object) // of each subgroup, by a place without an Object ID
	for i, o := range t.Objects {
		if err := t.validate(i, o, seen, last); err != nil {
			return fmt.Errorf("object %d: %w", i+1, err)
		}
		if total += o.Size; total > maxBytes {
			return fmt.Errorf("object %d: the objects have more than %d bytes", i+1, maxBytes)
		}
	}
	for i, c := range t.Path {
		if err := c.validate(); err != nil {
			return fmt.Errorf("change %d of the path: %w", i+1, err)
		}
	}
	if !slices.IsSortedFunc(t.Path, func(a, b Change) int { return int(a.At - b.At) }) {
		return errors.New("the changes of the path are not in the order of time")
	}
	return nil
}

// place is where an object or a subgroup is.
type place struct {
	track        int
	group, which uint64
}

func (t *Trace) validate(i int, o Object, seen map[place]bool, last map[place]Object) error {
	err := errors.Join(bounds.Check("track", o.Track, 0, len(t.Tracks)-1), bounds.Check("size", o.Size, 1, maxSize),
		bounds.Check("at", o.At, 0, maxLength))
	if err != nil {
		return err
	}
	at, subgroup := place{o.Track, o.Group, o.ID}, place{o.Track, o.Group, o.Subgroup}
	before, more := last[subgroup]
	switch {
	case i > 0 && o.At < t.Objects[i-1].At:
		return errors.New("is earlier than the one before it")
	case seen[at]:
		return fmt.Errorf("group %d has two objects %d", o.Group, o.ID)
	case o.Needs != nil && !seen[place{o.Track, o.Group, *o.Needs}]:
		return fmt.Errorf("needs object %d, which is not before it", *o.Needs)
	case more && (o.ID < before.ID || o.Priority != before.Priority):
		return fmt.Errorf("subgroup %d: ids must ascend, and the priority be the same", o.Subgroup)
	}
	seen[at], last[subgroup] = true, o
	return nil
}

func (c *Change) validate() error {
	return errors.Join(bounds.Check("rate", c.Rate, 0, maxRate), bounds.Check("queue", c.Queue, minQueue, maxBytes),
		bounds.Check("loss", c.Loss, 0, 1), bounds.Check("rtt", c.RTT, 0, Seconds(maxRTT)),
		bounds.Check("at", c.At, 0, maxLength))
}

const (
	minQueue = 1500 // one packet
	maxRTT   = 10 * time.Second
)

// Length returns how long the media lasts.
func (t *Trace) Length() time.Duration {
	last := t.Objects[len(t.Objects)-1]
	return time.Duration(last.At) + t.interval(last.Track)
}

// interval returns the average time between the objects of a track.
func (t *Trace) interval(track int) time.Duration {
	first, last, n := Seconds(-1), Seconds(0), 0
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
	return time.Duration(last-first) / time.Duration(n-1)
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
