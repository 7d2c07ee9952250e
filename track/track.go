package track

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/moqt"
)

// Track holds the objects of one track, and knows which do not exist. All methods may be called on any goroutine.
type Track struct {
	cache  *Cache
	opened func(*Segment)
	ahead  atomic.Int64 // bytes of streams that wait for others

	deriving sync.Mutex // one goroutine at a time derives segments

	mu        sync.Mutex
	index     index
	maxCache  time.Duration // MAX_CACHE_DURATION
	limitsAge bool          // the track has MAX_CACHE_DURATION
	live      bool          // see SetLive
	closed    bool
}

func newTrack(c *Cache, opened func(*Segment)) *Track {
	t := &Track{cache: c, opened: opened}
	t.index.track = t
	return t
}

// Largest returns the Largest Object (draft §10.2.11), nil if no object is known.
func (t *Track) Largest() *moqt.Location {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.index.largest.location()
}

// LargestWhole returns the Largest Object of a track, nil if there is none. Of objects that came, it is the largest
// that came whole: a publisher that takes another one's place need not know what that one was sending.
func LargestWhole(t *Track) *moqt.Location {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.index.largestWhole().location()
}

// RaiseLargest raises the Largest Object to a publisher's LARGEST_OBJECT.
func (t *Track) RaiseLargest(l moqt.Location) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.index.largest.raise(l)
}

// Limit returns the smallest location at and after which no object exists, nil if the end of the track is unknown.
func (t *Track) Limit() *moqt.Location {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.index.limit
}

// AddEnd records that no object at l or after it exists, as FETCH_OK says with End Of Track.
func (t *Track) AddEnd(l moqt.Location) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.index.end(l)
	}
}

// AddAbsent records that no object of r exists, as a FETCH response says.
func (t *Track) AddAbsent(r moqt.Range) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !r.Empty() && !t.closed {
		t.index.addAbsent(r)
	}
}

// SetMaxCacheDuration sets the track's MAX_CACHE_DURATION (draft §12.3).
func (t *Track) SetMaxCacheDuration(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.maxCache, t.limitsAge = d, true
}

// Fresh returns the time that an object must have been received after to be served from the cache now.
func (t *Track) Fresh() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.limitsAge {
		return time.Time{}
	}
	return t.cache.now().Add(-t.maxCache)
}

// SetLive sets whether the track has a publisher, or subscribers of one that may come back. While it does, the latest
// group does not expire, however old it is: late subscribers begin with it, and a publisher that comes back may send it
// again. When the track becomes live, objects that are not held any more count as new: nobody is left who has got them.
func (t *Track) SetLive(live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if live && !t.live {
		t.index.dropIf(func(g *group) bool { return g.evicted && !g.isPinned() })
	}
	t.live = live
}

// Segments returns the segments of a group that came on subscriptions, in the order of their first objects.
func (t *Track) Segments(group uint64) []*Segment {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.index.group(group)
	if g == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.segments), func(s *Segment) bool { return s.fetched })
}

// EndMark is how a publisher says which object is the last of a group.
type EndMark struct {
	Subgroup uint64 // that has the last object
	Status   bool   // an object with status END_OF_GROUP follows that; else the header of the subgroup says so
}

// EndMark returns how the publisher has marked the end of a group in a subgroup last, or nil if it has not.
func (t *Track) EndMark() *EndMark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.index.endMark
}

// Interrupted returns the first group from first to last that may lack objects: a stream of it ended early, it got an
// object since a time (0: that does not count), or it is missing although the cache has a lower one, and nothing says
// that it does not exist. If there is none, it returns last, or first if that is higher. A relay that gets back what it
// has missed brings old groups behind new ones, so a group may be missing between others.
func (t *Track) Interrupted(first, last uint64, since time.Time) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.index.interrupted(first, last, since)
}

// MayArrive reports whether an object may still come: a stream that is arriving is of the object's group, and has not
// come as far; or, if the group comes from its start on, all streams of it have begun with later objects, or the next
// one that is known came a moment ago.
func (t *Track) MayArrive(l moqt.Location, whole bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.index.group(l.Group)
	return g != nil && g.mayArrive(l.Object, whole) || whole && t.index.isOvertaken(l)
}

// AddDatagram takes in an object that came in a datagram. It reports whether the object is to be forwarded; the error
// is a *moqt.MalformedTrackError or ErrClosed. The memory of d becomes the track's.
func (t *Track) AddDatagram(d *Datagram) (forward bool, err error) {
	a := d.arrival()
	t.mu.Lock()
	defer t.cache.enforce()
	defer t.mu.Unlock()
	g, v, err := t.admitLocked(&a)
	switch {
	case err != nil:
		return false, err
	case v == duplicate:
		return false, g.compareDatagram(d)
	case v == nonexistent:
		return false, nil
	}
	if t.retentionLocked() > 0 {
		g.addDatagram(d)
	}
	return true, nil
}

// admitLocked decides on an object that came on a subscription and, if it is new, records it. The error is a
// *moqt.MalformedTrackError, and nothing is recorded then, or ErrClosed. mu is held.
func (t *Track) admitLocked(a *arrival) (*group, verdict, error) {
	if t.closed {
		return nil, 0, ErrClosed
	}
	return t.index.admit(a)
}

// Idle reports whether the track neither holds nor remembers objects.
func (t *Track) Idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.index.groups) == 0
}

// Close releases everything that no reader holds. Objects that still arrive are not kept.
func (t *Track) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.index.clear()
}

// retentionLocked returns how long the track's objects are kept; mu is held.
func (t *Track) retentionLocked() time.Duration {
	if t.limitsAge {
		return min(t.maxCache, t.cache.duration)
	}
	return t.cache.duration
}

// isCurrentLocked reports whether g is the latest group of a track that is being published; mu is held.
func (t *Track) isCurrentLocked(g *group) bool {
	return t.live && t.index.received.set && t.index.received.at.Group == g.id
}

// sweep applies the retention times to one group. It returns the subgroups that are arriving.
func (t *Track) sweep(g *group, now time.Time) []*subgroup {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range g.segments {
		s.stopUnread()
	}
	keep := t.retentionLocked()
	age := now.Sub(g.touched)
	switch {
	case g.isPinned():
		g.expire(now.Add(-keep))
	case t.isCurrentLocked(g) && keep > 0 && !t.limitsAge:
	case age > keep+dedupWindow:
		g.evict()
		t.index.drop(g)
	case age > keep && !g.evicted:
		g.evict()
	}
	if g.sources == 0 {
		return nil
	}
	return slices.Clone(g.subgroups)
}

// Position returns where the track stands. It must be closed.
func (t *Track) Position() Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Position{Largest: t.index.largest.location()}
	for _, g := range t.index.groups {
		for _, s := range g.segments {
			if state, _ := s.Log.State(); state.Ended() || s.fetched {
				continue
			}
			end := s.Log.End()
			if r, err := s.Log.NewReader(end, nil); err == nil { // else it has just ended
				p.Open = append(p.Open, OpenSegment{s, end, r})
			}
		}
	}
	return p
}

// At returns the longest stretch that starts at r.Start and does not go beyond r.End. Objects received before notBefore
// count as Unknown: see Fresh. The Reader of a Present stretch wakes w, which may be nil.
func (t *Track) At(r moqt.Range, notBefore time.Time, w Waker) Stretch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.index.at(r, notBefore, w)
}

// Groups divides the groups from first to last into runs, in ascending order.
func (t *Track) Groups(first, last uint64) []GroupRun {
	var runs []GroupRun
	for {
		run := t.groupRun(first, last)
		runs = append(runs, run)
		if run.Last >= last {
			return runs
		}
		first = run.Last + 1
	}
}

func (t *Track) groupRun(first, last uint64) GroupRun {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.index.group(first) != nil && !t.index.absent.contains(first) {
		return GroupRun{first, first, Present}
	}
	s := t.index.at(moqt.Range{
		Start: moqt.Location{Group: first}, End: moqt.Location{Group: last, Object: math.MaxUint64},
	}, time.Time{}, nil)
	return GroupRun{first, s.Range.End.Group, s.Existence}
}

// NewFetchWriter returns a FetchWriter, which must be closed.
func (t *Track) NewFetchWriter() *FetchWriter { return &FetchWriter{track: t} }

// NewSource returns a Source for a stream whose SUBGROUP_HEADER has been read. It must be closed or cut.
func (t *Track) NewSource(cfg SourceConfig) *Source {
	if cfg.Overtaken == nil {
		cfg.Overtaken = cfg.Cancel
	}
	parser := moqt.NewSubgroupParser(moqt.DataLayout1, cfg.Header, cfg.Start)
	in := &input{track: t, cfg: cfg, log: NewLog(cfg.Start, &t.cache.mem), parsed: cfg.Start, done: cfg.Start}
	return &Source{track: t, parser: parser, in: in}
}
