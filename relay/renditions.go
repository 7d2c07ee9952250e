package relay

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"sluice/internal/rendition"
	"sluice/media"
	"sluice/moqt"
)

// Limits of what a peer may have the relay choose from, and how often the relay looks at a set.
const (
	maxRenditionSets = 8  // of a session
	maxRenditions    = 16 // in a set
	renditionTick    = 100 * time.Millisecond
)

const (
	// boundaryMargin is how long before the end of a group, at least, the end of a rendition may be set: the kernel
	// sees the next group a little before user space does.
	boundaryMargin = 300 * time.Millisecond
	// flowTimeout is how long objects of a rendition may take to come when a publisher is asked for them.
	flowTimeout = 5 * time.Second
	// retireTimeout is how long the last groups of a rendition may take to be delivered.
	retireTimeout = 15 * time.Second
	// dropRecovery is how long after a change it does not count that the drop policy drops something: it needs a while
	// to find that this is no longer needed.
	dropRecovery = 5 * time.Second
	// groupsApart is by how much the latest groups of renditions may differ if they are aligned.
	groupsApart = 2
)

// renditionSets are the sets of a peer whose renditions the relay chooses from (see [moqt.Rendition]).
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
		s = &renditionSet{}
		if r.of == nil {
			r.of = make(map[uint64]*renditionSet)
		}
		r.of[m.Set] = s
		s.schedule()
	}
	s.add(d, m.Bitrate)
	return nil
}

// leave removes a subscription that has ended.
func (r *renditionSets) leave(d *downstream, m moqt.Rendition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.of[m.Set]; s.remove(d) {
		delete(r.of, m.Set)
	}
}

// renditionSet has the subscriptions of a peer to the renditions of one content. One of them is served. Its lock is
// taken before those of hubs.
type renditionSet struct {
	mu      sync.Mutex // join and leave also hold that of renditionSets
	members []renditionMember
	timer   *time.Timer
	path    sentPath
	chooser *rendition.Chooser // nil while nothing is served

	playing  *downstream
	boundary boundary
	next     *downstream // chosen: its publisher is being asked for objects
	asked    time.Time
	received uint64 // of next's track at that time

	first   uint64    // the first group of playing
	changed time.Time // when that was chosen
	leaving []leavingRendition
}

// leavingRendition was served before, and its last groups are being delivered.
type leavingRendition struct {
	*downstream
	until uint64 // the first group that is not served
	since time.Time
}

type renditionMember struct {
	*downstream
	bitrate uint64
}

// add adds a subscription. The first one with Forward State 1 is served.
func (s *renditionSet) add(d *downstream, bitrate uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = append(s.members, renditionMember{d, bitrate})
	slices.SortStableFunc(s.members, func(a, b renditionMember) int { return cmp.Compare(a.bitrate, b.bitrate) })
	if s.playing == nil && d.delivery.forward {
		s.playing = d
	} else {
		d.delivery.forward = false // nobody else uses it yet
	}
	s.renew()
}

// remove removes a subscription, and reports whether it was the last one. If it was served, the least rendition is.
func (s *renditionSet) remove(d *downstream) (empty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = slices.DeleteFunc(s.members, func(m renditionMember) bool { return m.downstream == d })
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
	if s.next != nil {
		s.next.setResumes(false)
		s.next = nil
	}
	i := slices.IndexFunc(s.members, func(m renditionMember) bool { return m.isServable() })
	s.playing = s.members[max(i, 0)].downstream
	s.begin(s.playing.largestGroup() + 1)
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
func (s *renditionSet) stays(d *downstream) {
	s.leaving = slices.DeleteFunc(s.leaving, func(l leavingRendition) bool { return l.downstream == d })
}

// renew makes the chooser know the members.
func (s *renditionSet) renew() {
	s.chooser = nil
	if i := s.index(s.playing); i >= 0 {
		bitrates := make([]int, len(s.members))
		for j, m := range s.members {
			bitrates[j] = int(min(m.bitrate, math.MaxInt32))
		}
		s.chooser = rendition.NewChooser(&s.path, bitrates, i)
	}
}

func (s *renditionSet) index(d *downstream) int {
	return slices.IndexFunc(s.members, func(m renditionMember) bool { return m.downstream == d })
}

// schedule looks at the set again and again, until it is empty.
func (s *renditionSet) schedule() {
	s.timer = time.AfterFunc(renditionTick, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.members) > 0 {
			s.look(time.Now())
			s.timer.Reset(renditionTick)
		}
	})
}

// look takes the next step of a change, or chooses.
func (s *renditionSet) look(now time.Time) {
	if s.chooser == nil {
		return
	}
	group, any := s.playing.position()
	s.boundary.look(now, group)
	if any && group >= s.first {
		s.chooser.Began(now, s.index(s.playing))
	}
	s.retire(now, group)
	state, open := s.playing.pathState()
	if !open {
		return // it has ended, and is removed soon; or it is not accepted yet
	}
	state.Dropping = state.Dropping && now.Sub(s.changed) > dropRecovery
	s.path.look(now, state, any)
	switch {
	case s.next != nil:
		s.change(now)
	case now.Sub(s.asked) >= rendition.Interval:
		s.asked = now
		if i := s.chooser.Choose(now, state.MinRTT); s.members[i].downstream != s.playing {
			s.next = s.members[i].downstream
			s.received = s.next.hub.received.Load()
			s.next.setResumes(true)
		}
	}
}

// change ends the present rendition before a group and begins the next one with it, as soon as that is flowing.
func (s *renditionSet) change(now time.Time) {
	group, any := s.next.position()
	flows := any && s.next.hub.received.Load() > s.received
	present := s.playing.largestGroup()
	aligned := group <= present+groupsApart && present <= group+groupsApart
	switch {
	case flows && !aligned || !flows && now.Sub(s.asked) > flowTimeout:
		s.chooser.Refused(now, flows)
		s.next.setResumes(false)
		s.next = nil
	case flows:
		first := max(group, present) + 1
		if s.boundary.isNear(now) {
			first++
		}
		s.playing.serveUntil(first)
		s.leaving = append(s.leaving, leavingRendition{s.playing, first, now})
		s.playing, s.next, s.changed = s.next, nil, now
		s.begin(first)
	}
}

// retire tells the publishers of renditions that were delivered that these are not wanted any more.
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

// sentPath is the path to a subscriber, by what its connection knows. It is a [rendition.Path].
type sentPath struct {
	state media.SubscriptionState
	sent  [rateSamples]sentSample // the latest last
	last  time.Time
}

type sentSample struct {
	at    time.Time
	bytes uint64
}

// rateSamples are those of two seconds.
const rateSamples = int(2*time.Second/renditionTick) + 1

func (p *sentPath) look(now time.Time, state media.SubscriptionState, flows bool) {
	if flows && state.Sent > p.state.Sent {
		p.last = now
	}
	p.state = state
	copy(p.sent[:], p.sent[1:])
	p.sent[rateSamples-1] = sentSample{now, state.Sent}
}

// Delay implements [rendition.Path]: by the age of what waits here, and the time that packets wait on the path. What
// the drop policy drops is late, too.
func (p *sentPath) Delay(time.Time) time.Duration {
	delay := p.state.Lag + max(p.state.SRTT-p.state.MinRTT, 0)
	if p.state.Dropping {
		return max(delay, droppingDelay)
	}
	return delay
}

// droppingDelay is more than any rule takes for being in time.
const droppingDelay = 10 * time.Second

// Rate implements [rendition.Path].
func (p *sentPath) Rate(time.Time) float64 {
	latest := p.sent[rateSamples-1]
	i := slices.IndexFunc(p.sent[:], func(s sentSample) bool { return !s.at.IsZero() })
	if i < 0 || !latest.at.After(p.sent[i].at) {
		return 0
	}
	return float64((latest.bytes-p.sent[i].bytes)*8) / latest.at.Sub(p.sent[i].at).Seconds()
}

// Burst implements [rendition.Path]: a window may be sent in each RTT.
func (p *sentPath) Burst() float64 {
	if p.state.SRTT == 0 {
		return 0
	}
	return float64(p.state.Window*8) / p.state.SRTT.Seconds()
}

// Last implements [rendition.Path].
func (p *sentPath) Last() time.Time { return p.last }

// position returns the largest group of the track. any is false if there is none, or the subscription has not begun.
func (d *downstream) position() (group uint64, any bool) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if l := d.hub.data.Largest(); l != nil && d.accepted {
		return l.Group, true
	}
	return 0, false
}

func (d *downstream) largestGroup() uint64 {
	group, _ := d.position()
	return group
}

// isServable reports whether the subscription is accepted and goes on.
func (d *downstream) isServable() bool {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	return d.accepted && !d.over
}

// pathState returns how fast data gets to the subscriber. open is false if the subscription is not open.
func (d *downstream) pathState() (state media.SubscriptionState, open bool) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if d.over || d.delivery.media == nil {
		return media.SubscriptionState{}, false
	}
	return d.delivery.media.State(), true
}

// setResumes sets whether publishers are asked for objects that the subscription does not want yet.
func (d *downstream) setResumes(yes bool) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if d.resumes = yes; !d.over {
		d.hub.subscribersChangedLocked()
	}
}

// serveUntil ends the delivery before a group.
func (d *downstream) serveUntil(group uint64) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if !d.over && group > 0 {
		end := moqt.Location{Group: group - 1, Object: math.MaxUint64}
		d.delivery.setServed(moqt.Range{Start: d.delivery.served.Start, End: end})
		d.hub.fast.update()
	}
}

// serveFrom begins the delivery with a group or, if the subscription is not accepted yet, where its filter says.
func (d *downstream) serveFrom(group uint64) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	d.resumes = false
	if d.over {
		return
	}
	if d.isServedUntil(group) {
		d.delivery.setServed(moqt.Range{Start: d.delivery.served.Start, End: moqt.Everything.End})
		d.hub.subscribersChangedLocked()
		return
	}
	d.delivery.setForward(true)
	if d.accepted {
		d.delivery.setServed(moqt.Range{Start: moqt.Location{Group: group}, End: moqt.Everything.End})
	}
	d.hub.subscribersChangedLocked()
	if d.accepted {
		now := d.hub.data.Position()
		defer now.Close()
		d.delivery.join(now)
	}
}

// isServedUntil reports whether the groups just before one are served, or that one, too; hub.mu is held.
func (d *downstream) isServedUntil(group uint64) bool {
	v := &d.delivery
	return d.accepted && v.forward && group > 0 && v.served.Contains(moqt.Location{Group: group - 1})
}

// pause ends the delivery until serveFrom is called.
func (d *downstream) pause() {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if !d.over {
		d.delivery.setForward(false)
		d.hub.subscribersChangedLocked()
	}
}

// isSending reports whether streams of the subscription are open.
func (d *downstream) isSending() bool {
	s := &d.delivery.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of) > 0
}
