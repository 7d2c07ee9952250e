package track

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"sluice/moqt"
)

// held is the objects of a group that are in memory. All methods expect Track.mu to be held.
type held struct {
	segments  []*Segment  // by First
	datagrams []*Datagram // by ID
}

// searchSegment returns the index of the first segment that begins after the object id.
func (h *held) searchSegment(id uint64) int {
	return sort.Search(len(h.segments), func(i int) bool { return h.segments[i].First > id })
}

func (h *held) searchDatagram(id uint64) int {
	i, _ := slices.BinarySearchFunc(h.datagrams, id, func(d *Datagram, id uint64) int { return cmp.Compare(d.ID, id) })
	return i
}

// next returns the usable object with the smallest id that is at least id.
func (h *held) next(id uint64, usable func(place) bool) (found place, ok bool) {
	for _, d := range h.datagrams[h.searchDatagram(id):] {
		if p := (place{datagram: d}); usable(p) {
			found, ok = p, true
			break
		}
	}
	for _, s := range h.segments {
		if ok && s.First >= found.id() {
			break
		}
		for o, more := s.Log.Seek(id); more && !(ok && o.ID >= found.id()); o, more = s.Log.Seek(o.ID + 1) {
			if p := (place{segment: s, object: o}); usable(p) {
				found, ok = p, true
				break
			}
			if o.ID == math.MaxUint64 {
				break
			}
		}
	}
	return found, ok
}

// find returns where the object id is held. It prefers objects that were sent to subscribers, and objects that are or
// will be complete.
func (h *held) find(id uint64) (best place, found bool) {
	choose := func(p place) {
		if !found || p.rank() > best.rank() {
			best, found = p, true
		}
	}
	for _, d := range h.datagrams[h.searchDatagram(id):] {
		if d.ID != id {
			break
		}
		choose(place{datagram: d})
	}
	// Most objects are in the last segment that begins before them, and few segments reach far beyond the next one.
	for i := h.searchSegment(id) - 1; i >= 0 && !(found && best.rank() == topRank); i-- {
		s := h.segments[i]
		if !s.Log.reaches(id) {
			continue
		}
		if o, ok := s.Log.Seek(id); ok && o.ID == id {
			choose(place{segment: s, object: o})
		}
	}
	return best, found
}

// compareDatagram returns an error if d differs, in fields that must not differ, from the same object that came before.
func (h *held) compareDatagram(d *Datagram) error {
	p, ok := h.find(d.ID)
	if !ok || p.datagram == nil {
		return nil
	}
	if string(p.datagram.Payload) != string(d.Payload) {
		return malformed("object {%d, %d} came with different payloads", d.Group, d.ID)
	}
	held, came := moqt.Properties(p.datagram.Properties), moqt.Properties(d.Properties)
	if string(held.Immutable()) != string(came.Immutable()) {
		return malformed("object {%d, %d} came with different immutable properties", d.Group, d.ID)
	}
	return nil
}

// hasPassed reports whether the streams of a subgroup have come as far as the object id, and have all of it if it is
// the last one.
func (h *held) hasPassed(subgroup, id uint64) bool {
	return slices.ContainsFunc(h.segments, func(s *Segment) bool {
		o, ok := s.Log.Last()
		if !ok || s.fetched || s.Subgroup != subgroup {
			return false
		}
		return o.ID > id || o.ID == id && !place{segment: s, object: o}.isTruncated()
	})
}

// endedEarly reports whether objects may follow those that came of a subgroup, and no stream brings them. Nobody brings
// those whose delivery timeout is over.
func (h *held) endedEarly() bool {
	for i, s := range h.segments {
		state, code := s.Log.State()
		isOver := state == Reset && code == uint64(moqt.ResetDeliveryTimeout)
		if s.fetched || isOver || state != Cut && state != Reset {
			continue
		}
		goesOn := func(later *Segment) bool { return !later.fetched && later.Subgroup == s.Subgroup }
		if !slices.ContainsFunc(h.segments[i+1:], goesOn) {
			return true
		}
	}
	return false
}
