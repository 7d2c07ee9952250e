package hub

import (
	"cmp"
	"time"

	"sluice/media"
	"sluice/moqt"
	"sluice/track"
)

// description is what publishers have told about a track. All methods expect Hub.mu to be held.
type description struct {
	hub        *Hub
	properties moqt.Properties // as received last
	timeouts   media.Timeouts  // delivery timeouts that the publisher wants, by these
	extent     *moqt.Location  // the last location that FETCH responses covered
}

// learn records the Largest Object and the properties of the track that a publisher sent. The latest set of properties
// replaces older ones (draft §2.5).
func (d *description) learn(largest *moqt.Location, p moqt.Properties) {
	d.properties = p
	d.timeouts = d.limited(p.ObjectDeliveryTimeout(), p.SubgroupDeliveryTimeout())
	d.hub.configureLocked()
	if largest != nil {
		d.hub.data.RaiseLargest(*largest)
	}
}

// learnFetched records a FETCH_OK: no object exists after end, if it is the end of the track.
func (d *description) learnFetched(data *track.Track, ok *moqt.FetchOK, end moqt.Location) {
	d.learn(nil, ok.Properties)
	if d.extent == nil || d.extent.Less(end) {
		d.extent = &end
	}
	if ok.EndOfTrack {
		data.AddEnd(end.Next())
	}
}

// timeoutsOf returns the delivery timeouts that the publisher wants for a segment, whose subgroup may have some of its
// own (draft §8).
func (d *description) timeoutsOf(seg *track.Segment) media.Timeouts {
	if seg.ObjectTimeout == nil && seg.SubgroupTimeout == nil {
		return d.timeouts
	}
	object, subgroup := d.properties.ObjectDeliveryTimeout(), d.properties.SubgroupDeliveryTimeout()
	return d.limited(*cmp.Or(seg.ObjectTimeout, &object), *cmp.Or(seg.SubgroupTimeout, &subgroup))
}

// limited converts delivery timeouts. An object that must not be served any more because of MAX_CACHE_DURATION (draft
// §12.3) has timed out, too.
func (d *description) limited(object, subgroup uint64) media.Timeouts {
	t := media.Timeouts{Object: moqt.Milliseconds(object), Subgroup: moqt.Milliseconds(subgroup)}
	if ms, ok := d.properties.MaxCacheDuration(); ok {
		t = t.Shorter(media.Timeouts{Object: moqt.Milliseconds(ms)})
	}
	return t
}

// haveTimedOut reports whether the delivery timeouts of the publisher (draft §8) are over for objects of a time.
func (d *description) haveTimedOut(since time.Time) bool {
	for _, ms := range []uint64{d.properties.ObjectDeliveryTimeout(), d.properties.SubgroupDeliveryTimeout()} {
		if ms > 0 && time.Since(since) > moqt.Milliseconds(ms) {
			return true
		}
	}
	return false
}
