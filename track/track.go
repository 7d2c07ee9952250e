package track

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
)

// Track indexes the objects of one track by group, subgroup and object, and knows which do not exist. All methods may be called on any
// goroutine. Locks are taken in the order merge.mu, Track.mu, Cache.mu, Log.mu.
type Track struct {
	cache  *Cache
	opened func(*Segment)

	mu        sync.Mutex
	groups    []*group       // by id
	largest   mark           // Largest Object: received or told by upstream
	received  mark           // the largest object that came on a subscription
	limit     *moqt.Location // the smallest location known not to exist, nor any after it
	gaps      ranges         // group ids that Prior Group ID Gap says do not exist
	absent    ranges         // all group ids known not to exist
	maxCache  time.Duration  // MAX_CACHE_DURATION
	limitsAge bool           // the track has MAX_CACHE_DURATION
	live      bool           // see SetLive
	closed    bool
}

// mark is a location that may be unset.
type mark struct {
	at  moqt.Location
	set bool
}

func (m *mark) raise(l moqt.Location) {
	if !m.set || m.at.Less(l) {
		m.at, m.set = l, true
	}
}

// Largest returns the Largest Object (draft §10.2.11), nil if no object is known.
func (t *Track) Largest() *moqt.Location {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.largest.set {
		return nil
	}
	l := t.largest.at
	return &l
}

// RaiseLargest takes account of a LARGEST_OBJECT received from upstream.
func (t *Track) RaiseLargest(l moqt.Location) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.largest.raise(l)
}

// Limit returns the smallest location of which it is known that neither it nor any after it exists, nil if the end of the track is unknown.
func (t *Track) Limit() *moqt.Location {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limit
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

// SetLive says whether a publisher is there. While one is, the latest group does not expire, however old it is: those who join begin with it.
// When one comes back, objects that are not held any more count as new, for it may send them again to those who have not got them.
func (t *Track) SetLive(live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if live && !t.live {
		for _, g := range slices.Clone(t.groups) {
			if g.evicted && !g.pinned() {
				t.drop(g)
			}
		}
	}
	t.live = live
}

// isCurrent reports whether g is the latest group of a track that is being published.
func (t *Track) isCurrent(g *group) bool {
	return t.live && t.received.set && t.received.at.Group == g.id
}

// Segments returns the segments of a group that came on subscriptions, in the order of their first objects.
func (t *Track) Segments(group uint64) []*Segment {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.group(group)
	if g == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.segments), func(s *Segment) bool { return s.fetched })
}

// OpenSegments returns the segments of which more objects may come.
func (t *Track) OpenSegments() []*Segment {
	t.mu.Lock()
	defer t.mu.Unlock()
	var open []*Segment
	for _, g := range t.groups {
		for _, s := range g.segments {
			if st, _ := s.Log.State(); st == Open && !s.fetched {
				open = append(open, s)
			}
		}
	}
	return open
}

// Idle reports whether the track holds nothing, neither objects nor memory of them.
func (t *Track) Idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.groups) == 0
}

// Close releases everything that no reader holds. Objects that still arrive are not kept.
func (t *Track) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, g := range t.groups {
		g.evict()
		t.cache.forget(g)
	}
	t.groups = nil
}

func (t *Track) search(id uint64) (int, bool) {
	return slices.BinarySearchFunc(t.groups, id, func(g *group, id uint64) int { return cmp.Compare(g.id, id) })
}

func (t *Track) group(id uint64) *group {
	if i, ok := t.search(id); ok {
		return t.groups[i]
	}
	return nil
}

func (t *Track) ensureGroup(id uint64) *group {
	i, ok := t.search(id)
	if !ok {
		now := t.cache.now()
		g := &group{id: id, track: t, created: now, touched: now}
		t.groups = slices.Insert(t.groups, i, g)
		t.cache.remember(g)
		g.recount()
	}
	return t.groups[i]
}

func (t *Track) drop(g *group) {
	if i, ok := t.search(g.id); ok && t.groups[i] == g {
		t.groups = slices.Delete(t.groups, i, i+1)
	}
	t.cache.forget(g)
}

// retention returns how long the track's objects are kept.
func (t *Track) retention() time.Duration {
	if t.limitsAge {
		return min(t.maxCache, t.cache.duration)
	}
	return t.cache.duration
}

// retain tells a new log how much of it is kept for later readers: all until its group is evicted, or nothing.
func (t *Track) retain(l *Log) {
	if t.closed || t.retention() <= 0 {
		l.Discard(math.MaxInt64)
	}
}
