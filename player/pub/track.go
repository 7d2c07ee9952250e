package pub

import (
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/player/loc"
)

// object is one object of a track. It never changes.
type object struct {
	location moqt.Location
	subgroup uint64
	priority uint8
	born     time.Time
	datagram bool // its Object Forwarding Preference is Datagram
	first    bool // of its subgroup
	status   moqt.ObjectStatus
	payload  []byte
	frame    *loc.Frame // what the properties say about a frame without a container; nil: nothing
}

// wireProperties returns the properties of the object on sessions of a version. It fails only for a configuration that
// is longer than a property, which no decoder has.
func (o *object) wireProperties(v moqt.Version) moqt.Properties {
	if o.frame == nil {
		return nil
	}
	p, err := o.frame.Properties(v)
	if err != nil {
		return nil
	}
	return p
}

// group is a group that has been published, or is being published. Its track's mutex guards it.
type group struct {
	id        uint64
	evicted   int       // how many objects it had before those that are kept
	objects   []*object // their ids count on from evicted
	subgroups []uint64  // that have begun
	bytes     int
	complete  bool
}

// end is the id of the next object.
func (g *group) end() uint64 { return uint64(g.evicted + len(g.objects)) }

// track keeps the latest groups of a track, for deliveries and for FETCH.
type track struct {
	name       moqt.FullTrackName
	priority   uint8 // of subgroups, unless they have their own
	properties moqt.Properties
	history    History
	datagrams  bool   // objects that fit go in datagrams
	layers     layers // priorities and subgroups
	frames     bool   // objects have properties
	dependency *loc.Dependency
	content    []byte // the only object of each group; nil: media
	layered    *track // has the same objects, in the subgroups of layers; nil: there is none

	mu      sync.Mutex
	groups  []*group // ascending; only the last one can be incomplete
	evicted *moqt.Location
	bytes   int
	counted int // bytes taken of history.Memory
	ended   bool
	changed chan struct{} // closed at the next change
}

// History bounds what a track keeps, for deliveries and for FETCH. A group that has more bytes by itself loses its
// oldest objects: some encoders make no second key frame. The newest object is kept whatever its size.
type History struct {
	Groups int    // default 8
	Bytes  int    // default 64 MiB
	Memory Memory // for all tracks together. Default: no other limit
}

// Memory bounds what several tracks keep. Methods are called on many goroutines.
type Memory interface {
	// Take reports whether there are n bytes more. If not, the track forgets its oldest objects.
	Take(n int) bool
	// Give gives bytes back. What a publisher has not given back when it ends is free, too.
	Give(n int)
}

// objectOverhead is the memory of an object beside its payload.
const objectOverhead = 256

func (h History) withDefaults() History {
	if h.Groups == 0 {
		h.Groups = 8
	}
	if h.Bytes == 0 {
		h.Bytes = 64 << 20
	}
	return h
}

func newTrack(name moqt.FullTrackName, priority uint8, properties moqt.Properties, h History) *track {
	return &track{
		name: name, priority: priority, layers: single(priority), properties: properties, history: h.withDefaults(),
		changed: make(chan struct{}),
	}
}

// update calls f with the lock held, and wakes the goroutines that wait for a change. It does nothing after the end of
// the track.
func (t *track) update(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	f()
	close(t.changed)
	t.changed = make(chan struct{})
}

// startGroup completes the current group and starts one with a larger id.
func (t *track) startGroup(id uint64) {
	t.update(func() { t.startGroupLocked(id) })
}

func (t *track) startGroupLocked(id uint64) {
	t.completeGroupLocked()
	t.groups = append(t.groups, &group{id: id})
	t.evictLocked(t.history.Bytes)
	t.countLocked()
}

// add publishes the next object of the current group. It sets the location.
func (t *track) add(o object) {
	t.update(func() { t.addLocked(o) })
}

func (t *track) addLocked(o object) {
	g := t.groups[len(t.groups)-1]
	o.location = moqt.Location{Group: g.id, Object: g.end()}
	if o.first = !slices.Contains(g.subgroups, o.subgroup); o.first {
		g.subgroups = append(g.subgroups, o.subgroup)
	}
	g.objects = append(g.objects, &o)
	g.bytes += len(o.payload)
	t.bytes += len(o.payload)
	t.evictLocked(t.history.Bytes)
	t.countLocked()
}

// republish publishes a group with the content of the track, for subscribers that did not get the last one. Several may
// ask for it at once.
func (t *track) republish(first uint64) {
	t.update(func() {
		if l := t.largestLocked(); l != nil {
			first = l.Group + 1
		}
		t.startGroupLocked(first)
		t.addLocked(object{priority: t.priority, born: time.Now(), payload: t.content})
		t.completeGroupLocked()
	})
}

// end completes the track.
func (t *track) end() {
	t.update(func() {
		t.completeGroupLocked()
		t.ended = true
	})
}

func (t *track) completeGroupLocked() {
	if n := len(t.groups); n > 0 {
		t.groups[n-1].complete = true
	}
}

// countLocked takes memory for what the track keeps. If there is too little of it, the track keeps less.
func (t *track) countLocked() {
	m := t.history.Memory
	if m == nil {
		return
	}
	n := t.sizeLocked()
	for n > t.counted && !m.Take(n-t.counted) {
		t.evictLocked(t.bytes / 4 * 3)
		before := n
		if n = t.sizeLocked(); n == before {
			return // the newest object is kept
		}
	}
	if n < t.counted {
		m.Give(t.counted - n)
	}
	t.counted = n
}

// sizeLocked returns how much memory the objects take.
func (t *track) sizeLocked() int {
	objects := 0
	for _, g := range t.groups {
		objects += len(g.objects)
	}
	return t.bytes + objects*objectOverhead
}

// evictLocked forgets the oldest groups and objects beyond the limits.
func (t *track) evictLocked(most int) {
	for len(t.groups) > 1 && (len(t.groups) > t.history.Groups || t.bytes > most) {
		g := t.groups[0]
		if n := len(g.objects); n > 0 {
			last := g.objects[n-1].location
			t.evicted = &last
		}
		t.bytes -= g.bytes
		t.groups = t.groups[1:]
	}
	if t.bytes > most {
		t.shortenLocked(t.groups[0], most/4*3)
	}
}

// shortenLocked removes the oldest objects of the only group. It makes some more room than it has to, since it copies
// what remains: deliveries read the array, and the memory of objects is free only when that is.
func (t *track) shortenLocked(g *group, most int) {
	n := 0
	for ; n < len(g.objects)-1 && t.bytes > most; n++ {
		size := len(g.objects[n].payload)
		g.bytes, t.bytes = g.bytes-size, t.bytes-size
	}
	if n == 0 {
		return
	}
	last := g.objects[n-1].location
	t.evicted = &last
	g.evicted += n
	g.objects = slices.Clone(g.objects[n:])
}

// largest returns the Largest Object (draft §5.1.2), nil if nothing was published.
func (t *track) largest() *moqt.Location {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.largestLocked()
}

func (t *track) largestLocked() *moqt.Location {
	for i := len(t.groups) - 1; i >= 0; i-- {
		if n := len(t.groups[i].objects); n > 0 {
			l := t.groups[i].objects[n-1].location
			return &l
		}
	}
	return t.evicted
}

// after returns the groups with ids of at least id, whether the track has ended, and a channel that is closed at the
// next change.
func (t *track) after(id uint64) (groups []*group, ended bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.groups {
		if g.id >= id {
			groups = append(groups, g)
		}
	}
	return groups, t.ended, t.changed
}

// read returns the objects of a group that are kept from an id on, whether the group is complete, and a channel that is
// closed at the next change.
func (t *track) read(g *group, id uint64) (objects []*object, complete bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := g.objects[min(max(int(id)-g.evicted, 0), len(g.objects)):]
	return kept, g.complete, t.changed
}

// fetch returns the objects of a range that the track still keeps, and the largest location of the range that it no
// longer keeps, if any.
func (t *track) fetch(r moqt.Range) (objects []*object, lost *moqt.Location) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.evicted != nil && !t.evicted.Less(r.Start) {
		lost = t.evicted
		if r.End.Less(*lost) {
			lost = &r.End
		}
	}
	for _, g := range t.groups {
		for _, o := range g.objects {
			if r.Contains(o.location) {
				objects = append(objects, o)
			}
		}
	}
	return objects, lost
}

// startOf returns the range that a subscription with this filter gets. It begins with the current group, where playback
// can start, or later. FETCH returns older groups.
func (t *track) startOf(filter *moqt.Filter, largest *moqt.Location) moqt.Range {
	r := filter.Range(largest)
	if largest != nil {
		r = r.Intersect(moqt.Range{Start: moqt.Location{Group: largest.Group}, End: moqt.MaxLocation})
	}
	return r
}

// newGroup starts a group if a subscriber requests one that the track does not have yet (draft §10.2.13). It does
// nothing for media, whose groups start at key frames of the source.
func (t *track) newGroup(request *uint64) {
	if request == nil || t.content == nil {
		return
	}
	if l := t.largest(); l == nil || *request == 0 || *request > l.Group {
		t.republish(0)
	}
}

// answer returns the objects of a range, and the FETCH_OK for them, which is nil if no object of the range has been
// published yet. lost is as for fetch.
func (t *track) answer(r moqt.Range) (objects []*object, lost *moqt.Location, ok *moqt.FetchOK) {
	largest := t.largest()
	if largest == nil || largest.Less(r.Start) {
		return nil, nil, nil
	}
	if largest.Less(r.End) {
		r.End = *largest
	}
	objects, lost = t.fetch(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	return objects, lost, &moqt.FetchOK{EndOfTrack: t.ended && r.End == *largest, End: r.FetchEnd()}
}
