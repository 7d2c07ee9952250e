package relay

import (
	"maps"
	"slices"
)

// RenditionStatus describes a set of renditions that a subscriber leaves the choice from to the relay.
type RenditionStatus struct {
	Set        uint64 `json:"set"`        // the number that the subscriber has chosen
	Track      string `json:"track"`      // that is served, as moqt.FullTrackName.String writes it; empty: none
	Bitrate    uint64 `json:"bitrate"`    // of that track, as the subscriber has said, in bits per second
	Renditions int    `json:"renditions"` // how many there are
	Switches   uint64 `json:"switches"`   // how often another one went on
	// Reason is why the last switch was made: see [rendition.Reason].
	Reason string `json:"reason,omitempty"`
}

// status describes the sets, in the order of their numbers.
func (r *renditionSets) status() (list []RenditionStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, set := range slices.Sorted(maps.Keys(r.of)) {
		list = append(list, r.of[set].status(set))
	}
	return list
}

// renditionStatus describes the set that the subscription belongs to, or returns nil if it does not.
func (d *downstream) renditionStatus() *RenditionStatus {
	m := d.pub.Parameters().Rendition
	if m == nil {
		return nil
	}
	r := &d.peer.sets
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.of[m.Set]; s != nil {
		return new(s.status(m.Set))
	}
	return nil
}

func (s *renditionSet) status(number uint64) RenditionStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := RenditionStatus{Set: number, Renditions: len(s.members), Switches: s.switches}
	if i := s.index(s.playing); i >= 0 {
		v.Track, v.Bitrate = s.playing.hub.name.String(), s.members[i].bitrate
	}
	if s.switches > 0 {
		v.Reason = s.reason.String()
	}
	return v
}

// countSwitch counts that another rendition has begun, if one has.
func (s *renditionSet) countSwitch() {
	if s.due == 0 {
		return
	}
	s.switches, s.reason, s.due = s.switches+1, s.due, 0
	s.switched(s.reason)
}
