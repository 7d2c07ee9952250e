package hub

import "time"

// demand is what the subscribers of a track ask of its publishers. The upstreams compare it with what they have
// told their publishers. All methods expect Hub.mu to be held.
type demand struct {
	hub     *Hub
	objects bool          // the Forward State that upstream subscriptions should have
	group   *groupRequest // passed on last, of all subscribers' requests
	linger  *time.Timer   // runs while unneeded objects are asked for
}

// groupRequest is a NEW_GROUP_REQUEST that is sent upstream (draft §10.2.13).
type groupRequest struct {
	value   uint64
	largest uint64 // the Largest Group then, plus 1; 0 if there was none
}

// update adapts to the present subscribers. When none wants objects any more, publishers are told after Config.Linger.
func (d *demand) update() {
	s := &d.hub.subscribers
	switch {
	case s.wantObjects():
		d.objects = true
		stopTimer(&d.linger)
	case d.linger == nil && d.objects:
		d.linger = d.hub.after(d.hub.directory.Linger, func() {
			d.linger, d.objects = nil, s.wantObjects()
			d.hub.publishers.wake()
		})
	}
	d.hub.choice.settle()
	d.hub.publishers.wake()
}

// forward is the Forward State that an upstream should have. Publishers that offered the track with Forward 1 are not
// told to stop, nor those that the relay has subscribed at: some existing publishers send objects whatever they are
// told. Renditions that the relay does not serve are the exception: they are as large as those that it does.
func (d *demand) forward(u *upstream) bool {
	s := &d.hub.subscribers
	switch {
	case d.objects:
		return true
	case u.pauses:
		return false
	case u.offered || u.peer.unpausable.Load():
		return true
	case s.areNone():
		return u.forward
	}
	return !s.areInReserve()
}

// requestGroup passes a subscriber's NEW_GROUP_REQUEST on, unless that would be useless.
func (d *demand) requestGroup(value *uint64) {
	if value == nil {
		return
	}
	h := d.hub
	largest := uint64(0)
	if l := h.data.Largest(); l != nil {
		largest = l.Group + 1
	}
	outstanding := d.group != nil && d.group.largest == largest && d.group.value >= *value
	switch {
	case h.publishers.areEstablished() && !h.description.properties.DynamicGroups():
	case *value != 0 && *value < largest: // the group exists: it is not above the Largest Group
	case outstanding:
	default:
		d.group = &groupRequest{*value, largest}
		h.publishers.wake()
	}
}
