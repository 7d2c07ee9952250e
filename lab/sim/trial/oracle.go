package trial

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
)

// maxDatagram is the largest payload of a datagram: it fits into the smallest packets.
const maxDatagram = 1000

// size returns how many bytes an object has.
func (m *Media) size(at moqt.Location) int {
	return 16 + int((at.Group*131+at.Object*977)%m.mostBytes(at))
}

// payload returns what an object has: its location, and bytes that follow from it.
func (m *Media) payload(at moqt.Location) []byte {
	b := make([]byte, m.size(at))
	binary.BigEndian.PutUint64(b, at.Group)
	binary.BigEndian.PutUint64(b[8:], at.Object)
	for i := range b[16:] {
		b[16+i] = byte(at.Group + at.Object*7 + uint64(i))
	}
	return b
}

// groupID returns the id of a group, by its number among all: a publisher that was restarted begins with id 0 again.
func (m *Media) groupID(group uint64) (id uint64) {
	id = group
	for _, first := range m.Restarts {
		if first <= group {
			id = group - first
		}
	}
	return id
}

// wire returns the location that an object is published with.
func (m *Media) wire(at moqt.Location) moqt.Location {
	return moqt.Location{Group: m.groupID(at.Group), Object: at.Object}
}

func (m *Media) mostBytes(at moqt.Location) uint64 {
	if m.isDatagram(at) {
		return maxDatagram
	}
	return 1500
}

func (m *Media) isDatagram(at moqt.Location) bool {
	return m.Datagrams > 0 && at.Object%m.Datagrams == m.Datagrams-1
}

// subgroup returns the subgroup of an object that is no datagram.
func (m *Media) subgroup(at moqt.Location) uint64 { return at.Object % max(m.Subgroups, 1) }

// isLast reports whether an object is the last of its group.
func (m *Media) isLast(at moqt.Location) bool { return at.Object == m.Objects-1 }

// oracle judges what a viewer receives in a session. It implements [session.Receiver].
type oracle struct {
	layout moqt.DataLayout
	media  *Media
	only   *Groups     // that were subscribed to; nil: all
	before *oracle     // of the session before this one; nil: none
	begins chan uint64 // gets the first object's group

	mu      sync.Mutex
	guess   *moqt.Location              // the end of the fetched range, if the relay has not told it; nil: it has
	got     map[moqt.Location]time.Time // when it came; 0 if it was fetched
	last    time.Time                   // when the latest object came that was not fetched
	unknown []moqt.Range                // to the relay, when it was asked for them
	faults  []string
	twice   []moqt.Location // objects that came twice
	open    map[uint64]int  // streams that have not ended, by group
	stalled chan struct{}   // nil: streams are read
}

func newOracle(v *Viewer, m *Media, before *oracle) *oracle {
	return &oracle{
		layout: v.Version.DataLayout(), media: m, only: v.Only, before: before,
		got: make(map[moqt.Location]time.Time), open: make(map[uint64]int), begins: make(chan uint64, 1),
	}
}

// HandleSubgroup implements [session.Receiver].
func (o *oracle) HandleSubgroup(g *session.Subgroup) {
	o.countOpen(g.Header.GroupID, 1)
	defer o.countOpen(g.Header.GroupID, -1)
	p, next := moqt.NewSubgroupParser(o.layout, g.Header, 0), uint64(0)
	var stream []byte
	var pending []moqt.SubgroupObject // whose payload is not whole
	b := make([]byte, 4096)
	for {
		o.awaitReading()
		n, err := g.Read(b)
		stream = append(stream, b[:n]...)
		for rest := b[:n]; len(rest) > 0; {
			object, used, parseErr := p.Next(rest)
			if rest = rest[used:]; parseErr == nil {
				pending = append(pending, *object)
			} else if !errors.Is(parseErr, moqt.ErrIncomplete) {
				o.fault("group %d: %v", g.Header.GroupID, parseErr)
				return
			}
		}
		for len(pending) > 0 && int(pending[0].End) <= len(stream) {
			first, at := pending[0], moqt.Location{Group: g.Header.GroupID, Object: pending[0].ObjectID}
			if at.Object < next {
				o.fault("object %v came behind a later one of its stream", at)
			}
			if o.media.isDatagram(at) || o.media.subgroup(at) != g.Header.SubgroupID {
				o.fault("object %v came in subgroup %d", at, g.Header.SubgroupID)
			}
			o.take(at, stream[first.PayloadStart:first.End], time.Now())
			pending, next = pending[1:], at.Object+1
		}
		if err != nil { // a reset leaves the rest to another stream
			return
		}
	}
}

// stall has streams not be read until resume is called.
func (o *oracle) stall() (resume func()) {
	stalled := make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stalled = stalled
	return func() { close(stalled) }
}

func (o *oracle) awaitReading() {
	o.mu.Lock()
	stalled := o.stalled
	o.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
}

// HandleDatagram implements [session.Receiver].
func (o *oracle) HandleDatagram(d *moqt.ObjectDatagram) {
	if !o.media.isDatagram(d.Location) {
		o.fault("object %v came in a datagram", d.Location)
	}
	o.take(d.Location, d.Payload, time.Now())
}

// takeFetched judges the objects of a response to FETCH from a location on, and returns the first one that has not
// come. The response may end within that.
func (o *oracle) takeFetched(p *moqt.FetchParser, from moqt.Location, response []byte) (rest moqt.Location) {
	for left := response; len(left) > 0; {
		object, n, err := p.Next(left)
		if err != nil {
			if !errors.Is(err, moqt.ErrIncomplete) {
				o.fault("a fetch: %v", err)
			}
			return from
		}
		left = left[n:]
		if object.Kind == moqt.FetchKindUnknown {
			o.unknown = append(o.unknown, moqt.Range{Start: from, End: object.Location})
		}
		if object.Kind == moqt.FetchKindObject && object.End > int64(len(response)) {
			return object.Location
		}
		from = moqt.Location{Group: object.Location.Group, Object: object.Location.Object + 1}
		if object.Kind == moqt.FetchKindObject {
			o.take(object.Location, response[object.PayloadStart:object.End], time.Time{})
		}
	}
	return from
}

// take judges a whole object. Its payload says which group of all it is of.
func (o *oracle) take(at moqt.Location, object []byte, came time.Time) {
	if o.only != nil && !o.only.has(at.Group) {
		o.fault("object %v came, which is not of groups %v", at, *o.only)
	}
	id := at.Group
	if len(object) >= 8 {
		at.Group = binary.BigEndian.Uint64(object)
	}
	if o.media.groupID(at.Group) != id || !bytes.Equal(object, o.media.payload(at)) {
		o.fault("object %v has other bytes than were published", moqt.Location{Group: id, Object: at.Object})
	}
	select {
	case o.begins <- id:
	default:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, twice := o.got[at]; twice && !(o.isGuessed(at) && before.IsZero() != came.IsZero()) {
		o.twice = append(o.twice, at)
	}
	o.got[at] = came
	if !came.IsZero() {
		o.last = came
	}
}

// isGuessed reports whether an object may come by FETCH and on the subscription: the viewer has taken the first object
// for the object with which the subscription begins, and the relay then gets the objects that it has missed before. mu
// is held.
func (o *oracle) isGuessed(at moqt.Location) bool { return o.guess != nil && !o.guess.Less(at) }

// fetchUpTo notes the end of a FETCH when the relay has not told how far the track is.
func (o *oracle) fetchUpTo(end *moqt.Location) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.guess = end
}

// latest returns when an object came last.
func (o *oracle) latest() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

func (o *oracle) countOpen(group uint64, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[group] += n; o.open[group] == 0 {
		delete(o.open, group)
	}
}

// allFaults returns the faults of all sessions. Some objects may have come twice.
func (o *oracle) allFaults(mayRepeat func(moqt.Location) bool) (all []string) {
	for ; o != nil; o = o.before {
		all = append(all, o.faults...)
		for _, at := range o.twice {
			if !mayRepeat(at) {
				all = append(all, fmt.Sprintf("object %v came twice", at))
			}
		}
	}
	return all
}

// has reports whether an object came in any session.
func (o *oracle) has(at moqt.Location) (ok bool) {
	for ; o != nil && !ok; o = o.before {
		o.mu.Lock()
		_, ok = o.got[at]
		o.mu.Unlock()
	}
	return ok
}

// isUnknown reports whether a relay has said that it does not know about an object any more.
func (o *oracle) isUnknown(at moqt.Location) (ok bool) {
	for ; o != nil && !ok; o = o.before {
		ok = slices.ContainsFunc(o.unknown, func(r moqt.Range) bool { return r.Contains(o.media.wire(at)) })
	}
	return ok
}

// incomplete returns the faults of what has not come, when the media is over.
func (o *oracle) incomplete(lost []moqt.Location) (faults []string) {
	if len(lost) > 0 {
		faults = append(faults, fmt.Sprintf("%d objects are missing: %v", len(lost), lost[:min(len(lost), 5)]))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if groups := slices.Sorted(maps.Keys(o.open)); len(groups) > 0 {
		faults = append(faults, fmt.Sprintf("streams of groups %v do not end", groups))
	}
	return faults
}

func (o *oracle) fault(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

// missing returns which objects from a group on, and before another one, have not come. Datagrams may be lost.
func (o *oracle) missing(first, end uint64) (lost []moqt.Location) {
	for group := first; group < end; group++ {
		for object := range o.media.Objects {
			at := moqt.Location{Group: group, Object: object}
			if !o.has(at) && !o.media.isDatagram(at) {
				lost = append(lost, at)
			}
		}
	}
	return lost
}
