package hub

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/rendition"
	"sluice/moqt"
)

// Limits of what a peer may have the relay choose from, and how often the relay looks at a set.
const (
	maxRenditionSets = 8  // of a session
	maxRenditions    = 16 // in a set
	renditionTick    = rendition.Tick
)

const (
	// boundaryMargin is how long before the end of a group, at least, the end of a rendition may be set: the kernel
	// sees the next group a little before user space does.
	boundaryMargin = 300 * time.Millisecond
	// flowTimeout is how long objects of a rendition may take to come when a publisher is asked for them.
	flowTimeout = 5 * time.Second
	// retireTimeout is how long the last groups of a rendition may take to be delivered.
	retireTimeout = 15 * time.Second
	// groupsApart is by how much the latest groups of renditions may differ if they are aligned.
	groupsApart = 2
)

// renditionSets are the sets of a peer whose renditions the relay chooses from (see [moqt.Rendition]). Their lock is
// taken before the locks of hubs.
type renditionSets struct {
	mu sync.Mutex
	of map[uint64]*renditionSet
}

var errTooManyRenditions = &moqt.RequestError{
	Code: moqt.RequestExcessiveLoad, Reason: "a session may have 8 sets of renditions with 16 renditions each",
}

var errForwardOfRendition = &moqt.RequestError{
	Code: moqt.RequestNotSupported, Reason: "the relay sets the Forward State of renditions: send no FORWARD",
}

// join adds a subscription to its set. It must be left, unless it is refused.
func (r *renditionSets) join(d *downstream, m moqt.Rendition) *moqt.RequestError {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of[m.Set]
	switch {
	case s == nil && len(r.of) >= maxRenditionSets || s != nil && len(s.members) >= maxRenditions:
		return errTooManyRenditions
	case s == nil:
		s = &renditionSet{counted: d.hub.directory.Counters.Switches}
		if r.of == nil {
			r.of = make(map[uint64]*renditionSet)
		}
		r.of[m.Set] = s
		r.schedule(s)
	}
	s.add((*variant)(d), m)
	return nil
}

// leave removes a subscription that has ended.
func (r *renditionSets) leave(d *downstream, m moqt.Rendition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.of[m.Set]; s.remove((*variant)(d)) {
		delete(r.of, m.Set)
	}
}

func (r *renditionSets) report(set uint64, p rendition.Playback) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.of[set]; s != nil {
		s.report(time.Now(), p)
	}
}

// schedule looks at a set again and again, until it is empty; mu is held.
func (r *renditionSets) schedule(s *renditionSet) {
	s.timer = time.AfterFunc(renditionTick, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(s.members) > 0 {
			s.look(time.Now())
			s.timer.Reset(renditionTick)
		}
	})
}

// Status describes the sets, in the order of their numbers.
func (r *renditionSets) Status() (list []RenditionStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, set := range slices.Sorted(maps.Keys(r.of)) {
		list = append(list, r.of[set].status(set))
	}
	return list
}

// renditionSet has the subscriptions of a peer to the renditions of one content. One of them is served. All its
// methods expect renditionSets.mu to be held.
type renditionSet struct {
	members []renditionMember
	timer   *time.Timer
	path    rendition.Sender
	chooser *rendition.Chooser // nil while nothing is served

	playback *rendition.Playback // reported last; nil: none was

	playing  *variant
	boundary boundary
	next     *variant // chosen: its publisher is being asked for objects
	asked    time.Time
	received uint64 // of next's track at that time

	first   uint64 // the first group of playing
	leaving []leavingRendition

	due      rendition.Reason // why playing was chosen, until its first group comes
	switches uint64
	reason   rendition.Reason       // of the last switch
	counted  *prometheus.CounterVec // the switches of all sets
}

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

// leavingRendition was served before, and its last groups are being delivered.
type leavingRendition struct {
	*variant
	until uint64 // the first group that is not served
	since time.Time
}

type renditionMember struct {
	*variant
	bitrate uint64
	pixels  uint64 // of a picture; 0: not known
}

// add adds a subscription. The first one with Forward State 1 is served.
func (s *renditionSet) add(d *variant, r moqt.Rendition) {
	s.members = append(s.members, renditionMember{d, r.Bitrate, pixels(r.Width, r.Height)})
	slices.SortStableFunc(s.members, func(a, b renditionMember) int { return cmp.Compare(a.bitrate, b.bitrate) })
	if s.playing == nil && d.delivery.forward {
		s.playing = d
	} else {
		d.delivery.forward = false // nobody else uses it yet
	}
	if s.playback != nil {
		d.delivery.patience = s.playback.Patience()
	}
	s.renew()
}

// remove removes a subscription, and reports whether it was the last one. If it was served, the least rendition is.
func (s *renditionSet) remove(d *variant) (empty bool) {
	s.members = slices.DeleteFunc(s.members, func(m renditionMember) bool { return m.variant == d })
	if len(s.members) == 0 {
		s.timer.Stop()
		return true
	}
	s.stays(d)
	if s.next == d {
		s.next = nil
	}
	if s.playing == d {
		s.goOn()
	}
	s.renew()
	return false
}

// goOn serves the least rendition that can be served now; or, if none can, the least one, when it is accepted.
func (s *renditionSet) goOn() {
	i := slices.IndexFunc(s.members, func(m renditionMember) bool { return m.state().open })
	s.playing = s.members[max(i, 0)].variant
	s.due = rendition.Ended
	s.begin(s.playing.state().group + 1)
}

// begin serves the rendition that was chosen, from a group on. Those that are leaving end before that group, too.
func (s *renditionSet) begin(first uint64) {
	s.first, s.boundary = first, boundary{}
	s.stays(s.playing)
	for i := range s.leaving {
		if l := &s.leaving[i]; first < l.until {
			l.until = first
			l.serveUntil(first)
		}
	}
	s.playing.serveFrom(first)
}

// stays forgets that a rendition is leaving.
func (s *renditionSet) stays(d *variant) {
	s.leaving = slices.DeleteFunc(s.leaving, func(l leavingRendition) bool { return l.variant == d })
}

// renew makes the chooser know the members. What it has chosen, and what is not served yet, does not count.
func (s *renditionSet) renew() {
	if s.next != nil {
		s.next.setResumes(false)
		s.next = nil
	}
	s.chooser = nil
	if i := s.index(s.playing); i >= 0 {
		renditions := make([]rendition.Rendition, len(s.members))
		for j, m := range s.members {
			renditions[j] = rendition.Rendition{Bitrate: int(min(m.bitrate, math.MaxInt32)), Pixels: m.pixels}
		}
		s.chooser = rendition.NewChooser(&s.path, renditions, i)
		if s.playback != nil {
			s.chooser.Report(time.Now(), *s.playback)
		}
	}
}

func (s *renditionSet) index(d *variant) int {
	return slices.IndexFunc(s.members, func(m renditionMember) bool { return m.variant == d })
}

// look takes the next step of a change, or chooses.
func (s *renditionSet) look(now time.Time) {
	if s.chooser == nil {
		return
	}
	playing := s.playing.state()
	s.boundary.look(now, playing.group)
	if playing.any && playing.group >= s.first {
		s.chooser.Began(now, s.index(s.playing))
		s.countSwitch()
	}
	s.retire(now, playing.group)
	if !playing.open {
		return // it has ended, and is removed soon; or it is not accepted yet
	}
	state := s.playing.sending()
	s.path.Look(now, rendition.Sent{
		Bytes: state.Sent, Window: state.Window, SRTT: state.SRTT, MinRTT: state.MinRTT, Longest: state.Longest,
		Lag: state.Lag, Dropping: state.Dropping, Flows: playing.any,
	})
	switch {
	case s.next != nil:
		s.change(now)
	case now.Sub(s.asked) >= rendition.Interval:
		s.asked = now
		if i := s.chooser.Choose(now, state.MinRTT); s.members[i].variant != s.playing {
			s.next = s.members[i].variant
			s.received = s.next.hub.received.Load()
			s.next.setResumes(true)
		}
	}
}

// change ends the present rendition before a group and begins the next one with it, as soon as that is flowing. If only
// a part of an object has come, the group is one of before: so the next one has time to come to the group of now.
func (s *renditionSet) change(now time.Time) {
	next, present := s.next.state(), s.playing.state().group
	// Some objects have come since it was asked for, so groups that begin from now on come whole.
	flows := next.any && next.flows && s.next.hub.received.Load() > s.received
	aligned := next.group <= present+groupsApart && present <= next.group+groupsApart
	switch {
	case flows && aligned:
		first := max(next.group, present) + 1
		if s.boundary.isNear(now) {
			first++
		}
		s.playing.serveUntil(first)
		s.leaving = append(s.leaving, leavingRendition{s.playing, first, now})
		s.playing, s.next = s.next, nil
		s.due = s.chooser.Reason()
		s.begin(first)
	case now.Sub(s.asked) > flowTimeout:
		s.chooser.Refused(now, flows)
		s.next.setResumes(false)
		s.next = nil
	}
}

// retire pauses renditions that were delivered. Their publishers are told after [Config.Linger], if nobody else wants
// them.
func (s *renditionSet) retire(now time.Time, group uint64) {
	s.leaving = slices.DeleteFunc(s.leaving, func(l leavingRendition) bool {
		late := now.Sub(l.since) > retireTimeout
		if !late && (group < l.until || l.isSending()) {
			return false
		}
		l.pause()
		return true
	})
}

// report lets the choice of a rendition, and the drop policy, know what the player has told.
func (s *renditionSet) report(now time.Time, p rendition.Playback) {
	s.playback = &p
	if s.chooser != nil {
		s.chooser.Report(now, p)
	}
	for _, m := range s.members {
		m.setPatience(p.Patience())
	}
}

// countSwitch counts that another rendition has begun, if one has.
func (s *renditionSet) countSwitch() {
	if s.due == 0 {
		return
	}
	s.switches, s.reason, s.due = s.switches+1, s.due, 0
	s.counted.WithLabelValues(s.reason.String()).Inc()
}

func (s *renditionSet) status(number uint64) RenditionStatus {
	v := RenditionStatus{Set: number, Renditions: len(s.members), Switches: s.switches}
	if i := s.index(s.playing); i >= 0 {
		v.Track, v.Bitrate = s.playing.hub.name.String(), s.members[i].bitrate
	}
	if s.switches > 0 {
		v.Reason = s.reason.String()
	}
	return v
}

// boundary knows when groups begin.
type boundary struct {
	group  uint64
	began  time.Time
	length time.Duration // of the group before; 0: not known
}

func (b *boundary) look(now time.Time, group uint64) {
	if group == b.group && !b.began.IsZero() {
		return
	}
	if !b.began.IsZero() && group == b.group+1 {
		b.length = now.Sub(b.began)
	}
	b.group, b.began = group, now
}

// isNear reports whether the next group may begin soon.
func (b *boundary) isNear(now time.Time) bool {
	return b.length == 0 || now.After(b.began.Add(b.length-boundaryMargin))
}
