package hub

import (
	"errors"

	"sluice/moqt"
	"sluice/moqt/session"
)

// update is a REQUEST_UPDATE of a subscriber (draft §10.9.1).
type update struct {
	*session.Update
	of *downstream
}

// apply answers the update, and makes it effective. One that is refused ends the subscription.
func (u update) apply() {
	d, h, p := u.of, u.of.hub, &u.Parameters
	refused := d.permit.Extend(u.Tokens)
	if refused == nil && p.Playback != nil {
		u.report()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if refused == nil && p.Filter != nil {
		refused = d.checkFilter(p.Filter, h.data.Largest())
	}
	if refused == nil && p.Forward != nil && d.pub.Parameters().Rendition != nil {
		refused = errForwardOfRendition
	}
	if refused != nil {
		u.denyLocked(refused)
		return
	}
	if isReport(*p) {
		_ = u.OK(moqt.Parameters{LargestObject: h.data.Largest(), Expires: d.permit.Expires()})
		return
	}
	if !d.delivery.forward && p.Forward != nil && *p.Forward {
		d.resumes = true
		h.subscribersChangedLocked()
		h.publishers.awaitForward(d.pub.Context())
		d.resumes = false
	}
	if refused := u.checkLocked(); refused != nil { // after the wait, in which others may have come
		u.denyLocked(refused)
		return
	}
	now := h.data.Position()
	defer now.Close()
	err := u.OK(moqt.Parameters{LargestObject: now.Largest, Expires: d.permit.Expires()})
	if refused, ok := errors.AsType[*moqt.RequestError](err); ok { // by the session
		u.failedLocked(refused)
	}
	if err != nil || d.over {
		return
	}
	d.applyLocked(p, now)
	d.fillLocked(u.Update, now.Largest)
}

// report takes what a player has told: it counts for all renditions of a set, and else for this track.
func (u update) report() {
	d, v := u.of, playbackOf(u.Parameters.Playback)
	d.peer.Directory.Counters.Reports.Inc()
	if m := d.pub.Parameters().Rendition; m != nil {
		d.peer.Sets.report(m.Set, v)
		return
	}
	(*variant)(d).setPatience(v.Patience())
}

// checkLocked checks the Range Filters and the range that the update results in; Hub.mu is held.
func (u update) checkLocked() *moqt.RequestError {
	d, p := u.of, &u.Parameters
	if p.Filter == nil && len(p.RangeFilters) == 0 {
		return nil
	}
	wanted := d.delivery.selection.passing
	if p.Filter != nil {
		wanted = p.Filter.Range(d.hub.data.Largest())
	}
	return d.hub.subscribers.checkRangeFilters(d.peer, d, d.delivery.selection.updatedFilters(p), wanted)
}

// denyLocked refuses the update; Hub.mu is held.
func (u update) denyLocked(e *moqt.RequestError) {
	u.of.hub.directory.Fetch.Refused(e.Code)
	_ = u.Reject(e) // fails only if the request is over
	u.failedLocked(e)
}

// failedLocked ends the subscription; Hub.mu is held.
func (u update) failedLocked(e *moqt.RequestError) {
	reset := moqt.ResetCancelled
	u.of.finishLocked(moqt.DoneUpdateFailed, e.Reason, &reset)
}
