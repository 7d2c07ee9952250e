package hub

import (
	"math"
	"time"

	"sluice/media"
	"sluice/moqt"
)

// variant is a subscription as the set of renditions sees it that it belongs to.
type variant downstream

// variantState is what the set chooses by.
type variantState struct {
	open  bool   // the subscription is accepted, and goes on
	group uint64 // the largest of the track
	any   bool   // there is one, and the subscription has begun
	flows bool   // a publisher sends objects
}

func (d *variant) state() variantState {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	v := variantState{open: d.accepted && !d.over, flows: d.hub.publishers.forward()}
	if l := d.hub.data.Largest(); l != nil && d.accepted {
		v.group, v.any = l.Group, true
	}
	return v
}

// sending returns how fast data gets to the subscriber. The subscription must have been open.
func (d *variant) sending() media.SubscriptionState {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	return d.delivery.media.State()
}

// setResumes sets whether publishers are asked for objects that the subscription does not want yet.
func (d *variant) setResumes(yes bool) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if d.resumes = yes; !d.over {
		d.hub.subscribersChangedLocked()
	}
}

// serveUntil ends the delivery before a group.
func (d *variant) serveUntil(group uint64) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if !d.over && group > 0 {
		d.delivery.selection.served.End = moqt.Location{Group: group - 1, Object: math.MaxUint64}
		d.hub.fast.update()
	}
}

// serveFrom begins the delivery with a group or, if the subscription is not accepted yet, where its filter says.
func (d *variant) serveFrom(group uint64) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	d.resumes = false
	if d.over {
		return
	}
	if d.isServedUntil(group) {
		d.delivery.selection.served.End = moqt.Everything.End
		d.hub.subscribersChangedLocked()
		return
	}
	if d.accepted {
		d.delivery.selection.served = moqt.Range{Start: moqt.Location{Group: group}, End: moqt.Everything.End}
	}
	d.setForward(true)
	if d.accepted {
		now := d.hub.data.Position()
		defer now.Close()
		d.delivery.join(now)
	}
}

// isServedUntil reports whether the groups just before one are served, or that one, too; Hub.mu is held.
func (d *variant) isServedUntil(group uint64) bool {
	v := &d.delivery
	return d.accepted && v.forward && group > 0 && v.selection.served.Contains(moqt.Location{Group: group - 1})
}

// pause ends the delivery until serveFrom is called.
func (d *variant) pause() {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if !d.over {
		d.setForward(false)
	}
}

// setForward changes the Forward State, and tells the subscriber so; Hub.mu is held.
func (d *variant) setForward(forward bool) {
	d.delivery.setForward(forward)
	if d.accepted { // before that, nothing is served, and the response does not say what will be
		// It fails only if the subscription has ended.
		_ = d.pub.Notify(moqt.Parameters{Forward: &forward, LargestObject: d.hub.data.Largest()})
	}
	d.hub.subscribersChangedLocked()
}

// isSending reports whether streams of the subscription are open.
func (d *variant) isSending() bool {
	return d.delivery.streams.areOpen()
}

// setPatience sets for how long the data of the subscription may wait, whatever the drop policy says.
func (d *variant) setPatience(patience time.Duration) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if d.delivery.patience = patience; d.delivery.media != nil {
		d.delivery.media.SetPatience(patience)
	}
}
